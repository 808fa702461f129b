// SPDX-License-Identifier: Apache-2.0
// Which models are shown: ranges of columns, and settings and statuses that are switched off.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const MISSING = ["no", "too", "only"];

  const PLURAL = { setting: "settings", status: "statuses" };

  // A filter of one column is {low, high, missing} for numbers, null being an open end, or
  // {levels, missing} for categories; missing says what becomes of models without a value.
  ui.filters = (shared) => {
    const filters = {
      byColumn: new Map(), hidden: { setting: new Set(), status: new Set() },
      shown: new Uint8Array(shared.count).fill(1), shownCount: shared.count,
      set: (key, filter) => set(filters, shared, key, filter),
      toggle: (kind, values, off) => toggle(filters, shared, kind, values, off),
      only: (kind, all, value) => only(filters, kind, all, value),
      clear: () => clear(filters, shared),
      listed: () => listed(filters, shared),
      state: () => [...filters.byColumn].map(([key, filter]) => (
        { key, ...filter, ...(filter.levels && { levels: [...filter.levels] }) })),
      restore: (kept, settings, statuses) => restore(filters, shared, kept, settings, statuses),
    };
    return filters;
  };

  function apply(filters, { population: { rows }, columns, count }) {
    const { byColumn, hidden, shown } = filters;
    const passes = [...byColumn].map(([key, filter]) => test(columns.get(key), filter));
    filters.shownCount = 0;
    for (let row = 0; row < count; row += 1) {
      const off = hidden.setting.has(rows.setting[row]) || hidden.status.has(rows.status[row]);
      shown[row] = Number(!off && passes.every((pass) => pass(row)));
      filters.shownCount += shown[row];
    }
  }

  function set(filters, shared, key, filter) {
    const column = shared.columns.get(key);
    const kept = filter && { ...filter, missing: column.missing ? filter.missing : "no" };
    if (!kept || keepsAll(column, kept)) filters.byColumn.delete(key);
    else filters.byColumn.set(key, kept);
    apply(filters, shared);
  }

  function toggle(filters, shared, kind, values, off) {
    for (const value of values) {
      if (off) filters.hidden[kind].add(value);
      else filters.hidden[kind].delete(value);
    }
    apply(filters, shared);
  }

  // Everything else is switched off, or on again where it was.
  function only(filters, kind, all, value) {
    const off = filters.hidden[kind];
    const alone = all.every((one) => (one === value) !== off.has(one));
    filters.toggle(kind, all, !alone);
    filters.toggle(kind, [value], false);
  }

  function clear(filters, shared) {
    filters.byColumn.clear();
    Object.values(filters.hidden).forEach((off) => off.clear());
    apply(filters, shared);
  }

  // Every filter in words, with what removes it.
  function listed(filters, { population: { rows, settings }, columns }) {
    const ranges = [...filters.byColumn].map(([key, filter]) => ({
      key, words: words(columns.get(key), filter), remove: () => filters.set(key, null),
    }));
    const names = settings.map(({ label }, number) => [number, label]);
    const statuses = [...new Set(rows.status)].map((status) => [status, status]);
    const off = [switchedOff(filters, "setting", names), switchedOff(filters, "status", statuses)];
    return [...ranges, ...off.filter(Boolean)];
  }

  function switchedOff(filters, kind, names) {
    const off = filters.hidden[kind];
    if (!off.size) return null;
    const named = (wanted) => names.filter(([value]) => off.has(value) === wanted)
      .map(([, name]) => name);
    const [left, gone] = [named(false), named(true)];
    const text = left.length === 1 ? `only ${left[0]}`
      : gone.length <= 2 ? `without ${gone.join(", ")}` : `${gone.length} ${PLURAL[kind]} hidden`;
    return { key: `:${kind}`, words: text, remove: () => filters.toggle(kind, [...off], false) };
  }

  // A state may come from an address that somebody wrote.
  function restore(filters, { population: { rows, settings }, columns }, kept, off, statuses) {
    filters.clear();
    for (const one of list(kept)) {
      const filter = columns.has(one?.key) && sane(columns.get(one.key), one);
      if (filter) filters.byColumn.set(one.key, filter);
    }
    filters.toggle("setting", list(off).filter((at) => settings[at] !== undefined), true);
    filters.toggle("status", list(statuses).filter((one) => rows.status.includes(one)), true);
  }

  const list = (value) => (Array.isArray(value) ? value : []);

  function sane(column, { low, high, levels, missing }) {
    const rest = MISSING.includes(missing) ? missing : "no";
    if (column.category && !Array.isArray(levels)) return false;
    const end = (value) => (Number.isFinite(value) ? value : null);
    const filter = column.category ? { levels: new Set(levels), missing: rest }
      : { low: end(low), high: end(high), missing: rest };
    return !keepsAll(column, filter) && filter;
  }

  function keepsAll(column, filter) {
    if (filter.missing === "only" || (filter.missing === "no" && column.missing)) return false;
    if (!filter.levels) return filter.low === null && filter.high === null;
    return column.levels.every((level) => filter.levels.has(level));
  }

  function test(column, filter) {
    const { numbers } = column;
    const [low, high] = [filter.low ?? -Infinity, filter.high ?? Infinity];
    const levels = filter.levels && column.levels.map((level) => filter.levels.has(level));
    return (row) => {
      const number = numbers[row];
      if (Number.isNaN(number)) return filter.missing !== "no";
      if (filter.missing === "only") return false;
      return levels ? levels[number] : number >= low && number <= high;
    };
  }

  function words(column, filter) {
    if (filter.missing === "only") return `${column.label} missing`;
    const rest = filter.missing === "too" ? " or missing" : "";
    return `${column.label} ${filter.levels ? levelWords(column, filter) : range(filter)}${rest}`;
  }

  function range({ low, high }) {
    const [from, to] = [low, high].map((end) => end !== null && ui.significant(end, 6));
    if (low === null && high === null) return "known";
    if (high === null) return `from ${from}`;
    return low === null ? `up to ${to}` : `${from} to ${to}`;
  }

  function levelWords({ levels }, filter) {
    const kept = levels.filter((level) => filter.levels.has(level));
    if (kept.length === 0) return "none";
    return kept.length <= 3 ? kept.join(", ") : `${kept.length} of ${levels.length}`;
  }

  // The filter for a stretch of an axis, in fractions; *touched* says whether the brush reached the
  // values and the strip of missing ones. A brush between two levels takes the nearer.
  ui.brushed = (column, scale, [from, to], { pixel, reach }, touched) => {
    const missing = !touched.missing ? "no" : touched.values ? "too" : "only";
    const near = (numbers) => within(numbers, scale, from - reach, to + reach);
    if (column.category) {
      const numbers = near(column.levels.map((_, number) => number));
      return { levels: new Set(numbers.map((number) => column.levels[number])), missing };
    }
    if (missing === "only") return { low: null, high: null, missing };
    const { steps } = column;
    const kept = near(steps);
    const end = (at) => ui.rounded(scale.value(at), scale.value(at + pixel) - scale.value(at));
    const [low, high] = steps.length ? [kept[0], kept.at(-1)] : [end(from), end(to)];
    const [first, last] = steps.length ? [steps[0], steps.at(-1)] : [column.low, column.high];
    return { low: low <= first ? null : low, high: high >= last ? null : high, missing };
  };

  // The steps of an axis between two fractions, or else the one nearest to them.
  function within(numbers, scale, from, to) {
    const found = numbers.filter((number) => scale.at(number) >= from && scale.at(number) <= to);
    if (found.length || !numbers.length) return found;
    const away = (number) => Math.abs(scale.at(number) - (from + to) / 2);
    return [numbers.reduce((best, number) => (away(number) < away(best) ? number : best))];
  }

  // The stretches of an axis a filter leaves, in fractions, and whether missing values stay.
  ui.stretches = (column, scale, filter) => {
    if (!filter) return { values: [[-1, 2]], missing: true };
    const missing = filter.missing !== "no";
    if (filter.missing === "only") return { values: [], missing };
    if (!filter.levels) {
      const end = (value, open) => (value === null ? open : scale.at(value));
      return { values: [[end(filter.low, -1), end(filter.high, 2)]], missing };
    }
    const half = 0.5 / Math.max(1, column.levels.length);
    const values = [];
    column.levels.forEach((level, number) => {
      if (!filter.levels.has(level)) return;
      const [from, to] = [scale.at(number) - half, scale.at(number) + half];
      const last = values[values.length - 1];
      if (last && Math.abs(last[1] - from) < 1e-9) last[1] = to;
      else values.push([from, to]);
    });
    return { values, missing };
  };
})();

// SPDX-License-Identifier: Apache-2.0
// The columns of a population as numbers (a category's are its levels'), and their scales of axes.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const MOST_STEPS = 16;
  const LEVELS = new Intl.Collator("en", { numeric: true });
  const isKnown = (value) => value !== null && value !== undefined && value !== "";

  // Every column by key. A run without columns is still seen: by the order of its models.
  ui.columns = ({ columns, rows }) => {
    const made = columns.map((column) => read(column, rows));
    if (!made.length) made.push(order(rows.key.length));
    return new Map(made.map((column) => [column.key, column]));
  };

  function read(column, rows) {
    const raw = rows.values[column.key] ?? [];
    const values = Array.from(rows.key, (_, row) => raw[row] ?? null);
    const errors = rows.errors?.[column.key] ?? null;
    if (column.type === "category") return categories(column, values);
    return numbers(column, values, errors);
  }

  function order(count) {
    const column = { key: "", label: "order of the models", group: "setting", better: "none" };
    return numbers(column, Array.from({ length: count }, (_, row) => row), null);
  }

  function numbers(column, values, errors) {
    const read = Float64Array.from(values, (value) => (typeof value === "number" ? value : NaN));
    const known = read.filter(Number.isFinite).sort();
    const low = known[0] ?? Infinity;
    const high = known.at(-1) ?? -Infinity;
    const wide = low > 0 && high > 100 * low;
    // A few scores near zero do not make a column logarithmic; most values below a fifth do.
    const log = wide && known[known.length >> 1] < high / 5;
    return {
      ...column, category: false, numbers: read, errors, levels: [], low, high, wide, log,
      missing: read.length - known.length, varies: low < high, steps: steps(known),
      decimals: ui.decimals(Array.from(known), log),
    };
  }

  // The values of a column that has only a few, each often: strengths, sizes, counts.
  function steps(known) {
    const found = [...new Set(known)];
    return found.length > 1 && found.length <= MOST_STEPS && known.length >= 3 * found.length
      ? found : [];
  }

  function categories(column, values) {
    const levels = [...new Set(values.filter(isKnown).map(String))].sort(LEVELS.compare);
    const number = new Map(levels.map((level, index) => [level, index]));
    const read = Float64Array.from(values, (one) => (isKnown(one) ? number.get(String(one)) : NaN));
    return {
      ...column, category: true, numbers: read, errors: null, levels, low: 0,
      high: levels.length - 1, missing: values.filter((value) => !isKnown(value)).length,
      varies: levels.length > 1, wide: false, log: false, steps: [], decimals: 0,
    };
  }

  // A row's value in words, with its standard error where one is known.
  ui.shown = (column, row) => {
    const number = column.numbers[row];
    if (Number.isNaN(number)) return "missing";
    if (column.category) return column.levels[number];
    return ui.withError(number, column.errors?.[row] ?? NaN, column.decimals);
  };

  // From values to fractions of an axis and back. Equal values stand in the middle.
  ui.scale = (column, logarithmic) => {
    if (column.category) return categoryScale(column);
    const log = logarithmic && column.wide;
    const bend = log ? Math.log10 : (value) => value;
    const [low, high] = column.varies ? [column.low, column.high] : around(column.low);
    const [first, last] = [bend(low), bend(high)];
    const value = (fraction) => {
      const bent = first + fraction * (last - first);
      return log ? 10 ** bent : bent;
    };
    const round = log ? ui.logTicks : ui.ticks;
    const at = (number) => (bend(number) - first) / (last - first);
    const gaps = column.steps.slice(1).map((step, before) => at(step) - at(column.steps[before]));
    return {
      log, value, at,
      // How far dots of one value may be spread without meeting those of the next.
      reach: gaps.length ? 0.3 * Math.min(...gaps) : 0,
      // Round numbers that lie up to *beyond* of the axis outside the values belong to it as well.
      ticks: (count, beyond = 0) => {
        if (!column.varies) return Number.isFinite(column.low) ? [column.low] : [];
        return round(value(-beyond), value(1 + beyond), count);
      },
      word: (number) => (log ? ui.significant(number, 3) : plain(number, high - low)),
    };
  };

  function around(value) {
    if (!Number.isFinite(value)) return [0, 1];
    const half = Math.abs(value) / 2 || 1;
    return [value - half, value + half];
  }

  // As many digits as the span of the axis asks for.
  function plain(number, span) {
    const digits = Math.ceil(Math.log10(Math.max(Math.abs(number), span) / span)) + 3;
    return ui.significant(number, Math.min(12, Math.max(3, digits)));
  }

  function categoryScale({ levels }) {
    const count = Math.max(1, levels.length);
    return {
      log: false, reach: 0.32 / count, at: (number) => (number + 0.5) / count,
      value: (fraction) => Math.min(count - 1, Math.max(0, Math.floor(fraction * count))),
      ticks: (most) => {
        const every = Math.ceil(levels.length / Math.max(1, most));
        return levels.map((_, number) => number).filter((number) => number % every === 0);
      },
      word: (number) => levels[number],
    };
  }
})();

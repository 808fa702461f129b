// SPDX-License-Identifier: Apache-2.0
// Numbers as a person reads them: sensible digits, standard errors and round ticks of an axis.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const magnitude = (value) => Math.floor(Math.log10(Math.abs(value)));
  const within = (value, low, high) => Math.min(high, Math.max(low, value));
  const signed = (text) => text.replace("-", "−").replace("e+", "e").replace("e-", "e−");

  // With so many decimals; what is no number is a dash.
  ui.fixed = (value, decimals) => {
    if (!Number.isFinite(value)) return "–";
    if (Math.abs(value) >= 1e4) return ui.significant(value, 3);
    const text = value.toFixed(decimals);
    return signed(Number(text) === 0 ? text.replace("-", "") : text);
  };

  // As many digits as it takes, at most *digits* significant ones.
  ui.significant = (value, digits = 3) => {
    if (!Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e7 || size < 1e-3) return signed(trimmed(value.toExponential(digits - 1)));
    if (size >= 1e4) return signed(GROUPED.format(value));
    return signed(trimmed(value.toFixed(within(digits - 1 - magnitude(value), 0, 8))));
  };

  function trimmed(text) {
    const [digits, power] = text.split("e");
    const short = digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
    return power === undefined ? short : `${short}e${power}`;
  }

  // Decimals that tell a column's values apart; null where they span too much for any.
  ui.decimals = (values, log) => {
    const sizes = values.filter((value) => Number.isFinite(value) && value !== 0).map(Math.abs);
    if (sizes.every(Number.isInteger)) return 0;
    const largest = sizes.reduce((a, b) => Math.max(a, b));
    const smallest = sizes.reduce((a, b) => Math.min(a, b));
    if (log || largest / smallest > 1e4 || largest < 1e-3) return null;
    return within(2 - magnitude(largest), 0, 5);
  };

  // A score with its error, "0.213 ± 0.012": two digits of the error decide how many of the value
  // mean anything. Without an error it has *decimals*, or three significant digits.
  ui.withError = (value, error, decimals = null) => {
    const plain = decimals === null ? ui.significant(value) : ui.fixed(value, decimals);
    if (!Number.isFinite(value) || !Number.isFinite(error) || error < 0) return plain;
    if (error === 0) return `${plain} ± 0`;
    const meaningful = Math.max(0, 1 - magnitude(error));
    if (meaningful > 8) return `${plain} ± ${ui.significant(error, 2)}`;
    return `${ui.fixed(value, meaningful)} ± ${ui.fixed(error, meaningful)}`;
  };

  ui.counted = (count, noun) => `${GROUPED.format(count)} ${noun}${count === 1 ? "" : "s"}`;

  // Round numbers, about *count* of them, between two others.
  ui.ticks = (low, high, count) => {
    const rough = (high - low) / Math.max(1, count);
    if (!(rough > 0) || !Number.isFinite(rough)) return [low];
    const unit = 10 ** magnitude(rough);
    const step = unit * [1, 2, 5, 10].find((times) => times * unit >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    // A division keeps 0.3 from becoming 0.30000000000000004.
    const inverse = Math.round(1 / step);
    const at = (number) => (inverse > 1 ? number / inverse : number * step);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, number) => at(first + number));
  };

  // The same on a logarithmic axis: powers of ten, with 2 and 5 between them where there is room.
  ui.logTicks = (low, high, count) => {
    const decades = Math.log10(high / low);
    const every = Math.max(1, Math.ceil(decades / count));
    const times = decades * 3 <= count ? [1, 2, 5] : [1];
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      if (power % every === 0) found.push(...times.map((factor) => factor * 10 ** power));
    }
    const inside = found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    return inside.map((tick) => Number(tick.toPrecision(3)));
  };

  // A number rounded to what one pixel of an axis can tell.
  ui.rounded = (value, pixel) => {
    const unit = 10 ** Math.floor(Math.log10(Math.abs(pixel)));
    return Number((Math.round(value / unit) * unit).toPrecision(12));
  };
})();

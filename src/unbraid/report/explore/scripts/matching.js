// SPDX-License-Identifier: Apache-2.0
// Which latent of one model goes with which of another: absolute rank correlations of their codes
// of the same images (UDR, Duan et al. 2020, compares them so), assigned one to one.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  // Ranks from 0; equal values share their mean rank.
  function ranks(values) {
    const order = Array.from(values, (_, at) => at).sort((a, b) => values[a] - values[b]);
    const found = new Float64Array(values.length);
    for (let from = 0, to = 0; from < order.length; from = to) {
      while (to < order.length && values[order[to]] === values[order[from]]) to += 1;
      for (let at = from; at < to; at += 1) found[order[at]] = (from + to - 1) / 2;
    }
    return found;
  }

  // Mean 0 and length 1, so that a product is a correlation; constant or unknown codes are zeros.
  function standardised(values) {
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const length = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0));
    return values.map((value) => (length > 0 ? (value - mean) / length : 0));
  }

  const column = ({ data, shape }, latent, rows) =>
    Float64Array.from({ length: rows }, (_, row) => data[row * shape[1] + latent]);

  function rankColumn(codes, latent, rows) {
    const values = column(codes, latent, rows);
    return standardised(values.every(Number.isFinite) ? ranks(values) : values.fill(0));
  }

  // Rank correlations (latents of A, latents of B) over the images that both have codes of.
  function spearman(codesA, codesB, latentsA, latentsB) {
    const rows = Math.min(codesA.shape[0], codesB.shape[0]);
    const others = latentsB.map((latent) => rankColumn(codesB, latent, rows));
    return latentsA.map((latent) => {
      const own = rankColumn(codesA, latent, rows);
      return others.map((other) => own.reduce((sum, value, at) => sum + value * other[at], 0));
    });
  }

  // Joins one more row: the cheapest path from it to a free column, in reduced costs.
  function join(cost, row, rowPrice, columnPrice, rowOf) {
    const columns = columnPrice.length - 1;
    const least = new Float64Array(columns + 1).fill(Infinity);
    const before = new Int32Array(columns + 1);
    const seen = new Uint8Array(columns + 1);
    let at = 0;
    rowOf[0] = row;
    do {
      seen[at] = 1;
      let [step, next] = [Infinity, 0];
      for (let to = 1; to <= columns; to += 1) {
        if (seen[to]) continue;
        const reduced = cost[rowOf[at] - 1][to - 1] - rowPrice[rowOf[at]] - columnPrice[to];
        if (reduced < least[to]) [least[to], before[to]] = [reduced, at];
        if (least[to] < step) [step, next] = [least[to], to];
      }
      for (let to = 0; to <= columns; to += 1) {
        if (!seen[to]) least[to] -= step;
        else {
          rowPrice[rowOf[to]] += step;
          columnPrice[to] -= step;
        }
      }
      at = next;
    } while (rowOf[at] !== 0);
    for (; at !== 0; at = before[at]) rowOf[at] = rowOf[before[at]];
  }

  // The Hungarian algorithm (Kuhn 1955; with shortest paths, cubic): pairs [row, column], as many
  // as the shorter side has, with the smallest sum of costs. Row and column 0 are outside.
  function hungarian(cost) {
    const [rows, columns] = [cost.length, cost.length ? cost[0].length : 0];
    if (rows > columns) {
      const turned = Array.from({ length: columns }, (_, to) => cost.map((row) => row[to]));
      return hungarian(turned).map(([a, b]) => [b, a]).sort((one, other) => one[0] - other[0]);
    }
    const rowPrice = new Float64Array(rows + 1);
    const columnPrice = new Float64Array(columns + 1);
    const rowOf = new Int32Array(columns + 1);
    for (let row = 1; row <= rows; row += 1) join(cost, row, rowPrice, columnPrice, rowOf);
    const pairs = Array.from(rowOf, (row, to) => [row - 1, to - 1]).slice(1);
    return pairs.filter(([row]) => row >= 0).sort((one, other) => one[0] - other[0]);
  }

  // Active latents of two models: {latentsA, latentsB, r, pairs: [{a, b, r}]}, pairs by their
  // latents' numbers.
  function match(modelA, modelB) {
    const latentsA = ui.inOrder(modelA.record).active;
    const latentsB = ui.inOrder(modelB.record).active;
    const [codesA, codesB] = [modelA.arrays.codes, modelB.arrays.codes];
    if (!codesA || !codesB) return { latentsA, latentsB, r: null, pairs: [] };
    const r = spearman(codesA, codesB, latentsA, latentsB);
    const pairs = hungarian(r.map((row) => row.map((one) => -Math.abs(one)))).map(([a, b]) =>
      ({ a: latentsA[a], b: latentsB[b], r: r[a][b] }));
    return { latentsA, latentsB, r, pairs };
  }

  // How many of the sorted values lie below a value, or up to it where *equal* ones count.
  function countBelow(sorted, value, equal) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value || (equal && sorted[middle] === value)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Where a value lies among sorted ones, in steps between them: the middle of those equal to it;
  // outside of all, a step is *beyond* wide.
  function place(sorted, value, beyond) {
    const [below, upTo] = [countBelow(sorted, value, false), countBelow(sorted, value, true)];
    const last = sorted.length - 1;
    if (upTo > below) return (below + upTo - 1) / 2;
    if (below === 0) return (value - sorted[0]) / beyond;
    if (below > last) return last + (value - sorted[last]) / beyond;
    return below - 1 + (value - sorted[below - 1]) / (sorted[below] - sorted[below - 1]);
  }

  function valueAt(sorted, at, beyond) {
    const last = sorted.length - 1;
    if (at <= 0) return sorted[0] + at * beyond;
    if (at >= last) return sorted[last] + (at - last) * beyond;
    const low = Math.floor(at);
    return sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]);
  }

  // Codes of one latent as those of its partner: the same quantile, or the opposite one where they
  // run against each other. Ranks are what was matched, so a bent relation is followed, too.
  // Beyond all codes both go on by their standard deviations.
  function partnerOf(codesA, latentA, codesB, latentB, sign) {
    const rows = Math.min(codesA.shape[0], codesB.shape[0]);
    const from = column(codesA, latentA, rows).sort();
    const to = column(codesB, latentB, rows).sort();
    const step = (codes, latent) => Math.max(ui.spread(codes, latent).deviation, 1e-9);
    const [stepA, stepB] = [step(codesA, latentA), step(codesB, latentB)];
    return (value) => {
      const at = place(from, value, stepA);
      return valueAt(to, sign < 0 ? rows - 1 - at : at, stepB);
    };
  }

  unbraid.matching = { ranks, spearman, hungarian, match, partnerOf };
})();

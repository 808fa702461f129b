// SPDX-License-Identifier: Apache-2.0
// The latents of a model: their names, sizes and order, and how their codes spread.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  // What the names of a model say of a latent; names are the user's own words.
  ui.nameOf = (model, latent) => model.names?.[String(latent)] || "";

  ui.latentWords = (model, latent) => {
    const name = ui.nameOf(model, latent);
    return name ? `latent ${latent} (${name})` : `latent ${latent}`;
  };

  ui.sizeWords = (record, latent) => {
    const { size } = record.latents[latent];
    const told = ui.fixed(size, size < 0.1 ? 4 : 2);
    return record.measure === "kl" ? `${told} nats` : `spread ${told}`;
  };

  // Latents that say most first; those that are not used apart.
  ui.inOrder = (record) => {
    const sorted = [...record.latents].sort((a, b) => b.size - a.size || a.number - b.number);
    return {
      active: sorted.filter((one) => one.active).map((one) => one.number),
      unused: sorted.filter((one) => !one.active).map((one) => one.number),
    };
  };

  // Mean and standard deviation of one column of an array (rows, columns).
  ui.spread = (array, column) => {
    const [rows, columns] = array.shape;
    let sum = 0;
    let squares = 0;
    for (let row = 0; row < rows; row += 1) sum += array.data[row * columns + column];
    const mean = sum / rows;
    for (let row = 0; row < rows; row += 1) {
      squares += (array.data[row * columns + column] - mean) ** 2;
    }
    return { mean, deviation: Math.sqrt(squares / rows) };
  };
})();

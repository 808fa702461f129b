// SPDX-License-Identifier: Apache-2.0
// Differences of images as colours, from black where they are equal (magma, a map whose steps look
// even and that colour-blind people read, by Smith and van der Walt).
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const MAGMA = ["000004", "180f3d", "440f76", "721f81", "9e2f7f", "cd4071", "f1605d", "fd9668",
    "feca8d", "fcfdbf"].map((text) => [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16)));
  const TOPS = [0.05, 0.1, 0.2, 0.5, 1];

  function colour(share) {
    const at = Math.max(0, Math.min(1, share)) * (MAGMA.length - 1);
    const low = Math.min(MAGMA.length - 2, Math.floor(at));
    return [0, 1, 2].map((part) =>
      Math.round(MAGMA[low][part] + (at - low) * (MAGMA[low + 1][part] - MAGMA[low][part])));
  }

  const COLOURS = Array.from({ length: 256 }, (_, at) => colour(at / 255));

  // Absolute differences by pixel, the mean over channels.
  ui.differences = (one, other, channels) => {
    const found = new Float32Array(one.length / channels);
    for (let at = 0; at < one.length; at += 1) {
      found[Math.floor(at / channels)] += Math.abs(one[at] - other[at]) / channels;
    }
    return found;
  };

  ui.meanDifference = (one, other) => {
    let sum = 0;
    for (let at = 0; at < one.length; at += 1) sum += Math.abs(one[at] - other[at]);
    return sum / one.length;
  };

  // The top of a scale in few sizes, so that colours do not flicker while a hand moves.
  ui.roundTop = (largest) => TOPS.find((top) => largest <= top) ?? 1;

  ui.paintDifferences = (canvas, differences, top) => {
    const pen = canvas.getContext("2d");
    const painted = pen.createImageData(canvas.width, canvas.height);
    differences.forEach((difference, at) => {
      const level = Math.round(Math.min(1, difference / top) * 255);
      painted.data.set(COLOURS[level], 4 * at);
      painted.data[4 * at + 3] = 255;
    });
    pen.putImageData(painted, 0, 0);
  };
})();

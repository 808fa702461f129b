// SPDX-License-Identifier: Apache-2.0
// A network's encoder and decoder in typed arrays, from the layers that network_record.py writes.
// Images and hidden activations are height x width x channels; what is zero behind a ReLU is left
// out of the products. Each step owns the array that it gives, and fills it anew at every call.
"use strict";
(function () {
  const unbraid = (window.unbraid ??= {});
  const LEAST_STD = 1e-6;
  const LINEAR_FROM = 20; // softplus(x) is x from here on, as in Python

  // Inputs that are not zero, and where their weights start, for one call of addProducts.
  let starts = new Int32Array(4096);
  let values = new Float64Array(4096);

  function makeRoom(count) {
    if (starts.length >= count) return;
    starts = new Int32Array(count);
    values = new Float64Array(count);
  }

  // Lists what is not zero of x[from], x[from + 1], ... behind the `listed` ones. The weights of
  // x[from] start at `at`, and those of every next one `stride` later. Gives how many are listed.
  function list(x, from, count, at, stride, listed) {
    for (let i = from; i < from + count; i++, at += stride) {
      const value = x[i];
      if (value === 0) continue;
      starts[listed] = at;
      values[listed] = value;
      listed++;
    }
    return listed;
  }

  // y[to + o] += the sum over listed inputs of value * weight[start + shift + o], o < outputs.
  function addProducts(y, to, outputs, weight, shift, listed) {
    let n = 0;
    for (; n + 4 <= listed; n += 4) {
      const a = starts[n] + shift;
      const b = starts[n + 1] + shift;
      const c = starts[n + 2] + shift;
      const d = starts[n + 3] + shift;
      const p = values[n];
      const q = values[n + 1];
      const r = values[n + 2];
      const s = values[n + 3];
      for (let o = 0; o < outputs; o++) {
        y[to + o] += p * weight[a + o] + q * weight[b + o] + r * weight[c + o] + s * weight[d + o];
      }
    }
    for (; n < listed; n++) {
      const a = starts[n] + shift;
      const p = values[n];
      for (let o = 0; o < outputs; o++) y[to + o] += p * weight[a + o];
    }
  }

  function activate(y, activation, slope) {
    if (activation === "relu") {
      for (let i = 0; i < y.length; i++) if (y[i] < 0) y[i] = 0;
    } else if (activation === "leaky") {
      for (let i = 0; i < y.length; i++) if (y[i] < 0) y[i] *= slope;
    } else if (activation === "tanh") {
      for (let i = 0; i < y.length; i++) y[i] = Math.tanh(y[i]);
    }
  }

  function repeated(bias, places) {
    const all = new Float32Array(places * bias.length);
    for (let place = 0; place < places; place++) all.set(bias, place * bias.length);
    return all;
  }

  function denseStep({ weight, bias }, size) {
    const outputs = bias.length;
    const y = new Float32Array(outputs);
    makeRoom(size);
    return (x) => {
      y.set(bias);
      addProducts(y, 0, outputs, weight, 0, list(x, 0, size, 0, outputs, 0));
      return y;
    };
  }

  // Lists the window of a convolution whose first pixel is (row, column), inside the image or not.
  function listWindow(x, shape, kernel, row, column, outputs) {
    const { height, width, channels } = shape;
    const left = Math.max(0, -column);
    const right = Math.min(kernel, width - column);
    let listed = 0;
    for (let ky = Math.max(0, -row); ky < kernel && row + ky < height; ky++) {
      const from = ((row + ky) * width + column + left) * channels;
      const at = (ky * kernel + left) * channels * outputs;
      listed = list(x, from, (right - left) * channels, at, outputs, listed);
    }
    return listed;
  }

  function convStep({ weight, bias, kernel }, shape) {
    const outputs = bias.length;
    const height = shape.height / 2;
    const width = shape.width / 2;
    const padding = kernel / 2 - 1;
    const biases = repeated(bias, height * width);
    const y = new Float32Array(biases.length);
    makeRoom(kernel * kernel * shape.channels);
    return (x) => {
      y.set(biases);
      for (let row = 0; row < height; row++) {
        for (let column = 0; column < width; column++) {
          const [top, left] = [2 * row - padding, 2 * column - padding];
          const listed = listWindow(x, shape, kernel, top, left, outputs);
          addProducts(y, (row * width + column) * outputs, outputs, weight, 0, listed);
        }
      }
      return y;
    };
  }

  // From (ky, kx, in, out) to (ky, in, kx, out): what a pixel adds to one row lies side by side.
  function byRows(weight, kernel, inputs, outputs) {
    const turned = new Float32Array(weight.length);
    for (let ky = 0; ky < kernel; ky++) {
      for (let kx = 0; kx < kernel; kx++) {
        for (let i = 0; i < inputs; i++) {
          const from = ((ky * kernel + kx) * inputs + i) * outputs;
          const to = ((ky * inputs + i) * kernel + kx) * outputs;
          turned.set(weight.subarray(from, from + outputs), to);
        }
      }
    }
    return turned;
  }

  function convTransposeStep({ weight, bias, kernel }, { height, width, channels }) {
    const outputs = bias.length;
    const turned = byRows(weight, kernel, channels, outputs);
    const biases = repeated(bias, 4 * height * width);
    const y = new Float32Array(biases.length);
    makeRoom(channels);
    const addPixel = (row, column, listed) => {
      const left = Math.max(0, 1 - 2 * column);
      const count = (Math.min(kernel, 2 * width + 1 - 2 * column) - left) * outputs;
      for (let ky = 0; ky < kernel; ky++) {
        const target = 2 * row + ky - 1;
        if (target < 0 || target >= 2 * height) continue;
        const to = (target * 2 * width + 2 * column - 1 + left) * outputs;
        addProducts(y, to, count, turned, (ky * channels * kernel + left) * outputs, listed);
      }
    };
    return (x) => {
      y.set(biases);
      for (let pixel = 0; pixel < height * width; pixel++) {
        const listed = list(x, pixel * channels, channels, 0, kernel * outputs, 0);
        addPixel(Math.floor(pixel / width), pixel % width, listed);
      }
      return y;
    };
  }

  function wrong(what) {
    return new Error(`This model's network cannot be run: ${what}.`);
  }

  function arrayOf(name, arrays) {
    if (!Object.hasOwn(arrays, name)) throw wrong(`the array ${name} is missing`);
    return arrays[name].data;
  }

  const KINDS = {
    dense: (layer, shape) => [denseStep(layer, sizeOf(shape)), flat(layer.bias.length)],
    conv: (layer, shape) => [convStep(layer, shape), scaled(shape, 1 / 2, layer.bias.length)],
    conv_transpose: (layer, shape) => [
      convTransposeStep(layer, shape),
      scaled(shape, 2, layer.bias.length),
    ],
  };

  function sizeOf({ height, width, channels }) {
    return height * width * channels;
  }

  function flat(channels) {
    return { height: 1, width: 1, channels };
  }

  function scaled({ height, width }, factor, channels) {
    return { height: height * factor, width: width * factor, channels };
  }

  // The layer as a function of arrays of the given shape, and the shape of what it gives.
  function step(described, arrays, shape) {
    const { kind, activation, slope, kernel } = described;
    if (!Object.hasOwn(KINDS, kind)) throw wrong(`the kind of ${described.weight} is unknown`);
    const layer = {
      weight: arrayOf(described.weight, arrays),
      bias: arrayOf(described.bias, arrays),
      kernel,
    };
    const inputs = kind === "dense" ? sizeOf(shape) : kernel * kernel * shape.channels;
    if (layer.weight.length !== inputs * layer.bias.length) {
      throw wrong(`the size of ${described.weight} does not fit the layer before it`);
    }
    const [run, next] = KINDS[kind](layer, shape);
    const activated = (x) => {
      const y = run(x);
      activate(y, activation, slope);
      return y;
    };
    return [activated, next];
  }

  // Layers one after the other: a function, and the shape of what it gives.
  function chain(layers, arrays, shape) {
    const steps = layers.map((described) => {
      const [run, next] = step(described, arrays, shape);
      shape = next;
      return run;
    });
    return [(x) => steps.reduce((last, run) => run(last), x), shape];
  }

  // Takes numbers of any kind over into an array of its own, by channel in other units.
  function intake(size, change, what) {
    const own = new Float32Array(size);
    return (given) => {
      if (given.length !== size) throw wrong(`${what} must have ${size} numbers`);
      own.set(given);
      if (change) changeUnits(own, change);
      return own;
    };
  }

  function changeUnits(x, { scale, shift }) {
    const channels = scale.length;
    for (let i = 0; i < x.length; i++) x[i] = x[i] * scale[i % channels] + shift[i % channels];
  }

  function softplus(x) {
    return x > LINEAR_FROM ? x : Math.log1p(Math.exp(x));
  }

  // log(exp(a) + exp(b)) without overflow
  function logAddExp(a, b) {
    return Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
  }

  const LOGVAR_RULES = {
    logvar: (head) => head,
    softplus: (head) => 2 * Math.log(softplus(head) + LEAST_STD),
    floored: (head) => 2 * logAddExp(head / 2, Math.log(LEAST_STD)),
  };

  const EXPECTED = { identity: (raw) => raw, sigmoid: (raw) => 1 / (1 + Math.exp(-raw)) };

  function applyTo(x, rule) {
    for (let i = 0; i < x.length; i++) x[i] = rule(x[i]);
  }

  // Rounds each latent to the nearest value of its row of the codebook, the first of two as near.
  function roundTo(codebook, codes) {
    const count = codebook.length / codes.length;
    for (let latent = 0; latent < codes.length; latent++) {
      let nearest = codebook[latent * count];
      for (let i = latent * count + 1; i < (latent + 1) * count; i++) {
        const value = codebook[i];
        if (Math.abs(codes[latent] - value) < Math.abs(codes[latent] - nearest)) nearest = value;
      }
      codes[latent] = nearest;
    }
  }

  function encoderOf(record, arrays, image) {
    const take = intake(sizeOf(image), record.input, "an image");
    const [run, shape] = chain(record.encoder, arrays, image);
    const [meanOf, { channels: latents }] = step(record.mean, arrays, shape);
    const [logvarOf] = step(record.logvar, arrays, shape);
    const codebook = record.codebook === null ? null : arrayOf(record.codebook, arrays);
    const encode = (pixels) => {
      const hidden = run(take(pixels));
      const [mean, logvar] = [meanOf(hidden), logvarOf(hidden)];
      applyTo(logvar, LOGVAR_RULES[record.logvar_rule]);
      if (codebook) roundTo(codebook, mean);
      return { mean, logvar };
    };
    return { encode, latents };
  }

  // Dense layers, of which the last may give an image that transposed convolutions double.
  function decoderOf(record, arrays, image, latents) {
    const take = intake(latents, null, "a code");
    const doublings = record.decoder.filter(({ kind }) => kind === "conv_transpose");
    const dense = record.decoder.slice(0, record.decoder.length - doublings.length);
    const [first, { channels: size }] = chain(dense, arrays, flat(latents));
    const corner = scaled(image, 0.5 ** doublings.length, 1);
    corner.channels = size / sizeOf(corner);
    const [second, last] = chain(doublings, arrays, corner);
    if (sizeOf(last) !== sizeOf(image)) throw wrong("its decoder gives images of another size");
    return (z) => {
      const pixels = second(first(take(z)));
      if (record.output) changeUnits(pixels, record.output);
      if (record.expected === "sigmoid") applyTo(pixels, EXPECTED.sigmoid);
      return pixels;
    };
  }

  unbraid.network = function (record, arrays) {
    const [channels, height, width] = record.sample_shape;
    const image = { height, width, channels };
    const { encode, latents } = encoderOf(record, arrays, image);
    return { latents, encode, decode: decoderOf(record, arrays, image, latents) };
  };

  // One pixel of the canvas for each of the image; numbers outside 0 and 1 are cut off. Clamped
  // arrays round as NumPy does, halves to even.
  unbraid.paint = function (canvas, pixels, height, width, channels) {
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const picture = new ImageData(width, height);
    const [green, blue] = channels >= 3 ? [1, 2] : [0, 0];
    for (let pixel = 0; pixel < width * height; pixel++) {
      const from = pixel * channels;
      picture.data[4 * pixel] = pixels[from] * 255;
      picture.data[4 * pixel + 1] = pixels[from + green] * 255;
      picture.data[4 * pixel + 2] = pixels[from + blue] * 255;
      picture.data[4 * pixel + 3] = 255;
    }
    canvas.getContext("2d").putImageData(picture, 0, 0);
  };
})();

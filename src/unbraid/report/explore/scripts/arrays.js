// SPDX-License-Identifier: Apache-2.0
// Reads what container.py packs: a record and named arrays in one run of bytes.
"use strict";
(function () {
  const unbraid = (window.unbraid ??= {});
  const BYTES = { float32: 4, float16: 2, int32: 4, uint8: 1 };
  const ALIGNMENT = 8;
  const LENGTH_BYTES = 4;
  let halves = null;

  function damaged(what) {
    return new Error(`This is no model file of Unbraid, or a damaged one: ${what}.`);
  }

  // The number that each of the 65,536 patterns of 16 bits stands for.
  function halfNumbers() {
    const numbers = new Float32Array(65536);
    for (let bits = 0; bits < 32768; bits++) {
      const exponent = bits >> 10;
      const fraction = bits & 1023;
      let number = (1024 + fraction) * 2 ** (exponent - 25);
      if (exponent === 0) number = fraction * 2 ** -24;
      if (exponent === 31) number = fraction ? NaN : Infinity;
      numbers[bits] = number;
      numbers[bits + 32768] = -number;
    }
    return numbers;
  }

  function fromHalves(bits) {
    halves ??= halfNumbers();
    const numbers = new Float32Array(bits.length);
    for (let i = 0; i < bits.length; i++) numbers[i] = halves[bits[i]];
    return numbers;
  }

  function view(buffer, dtype, at, count) {
    if (dtype === "float32") return new Float32Array(buffer, at, count);
    if (dtype === "int32") return new Int32Array(buffer, at, count);
    if (dtype === "uint8") return new Uint8Array(buffer, at, count);
    return fromHalves(new Uint16Array(buffer, at, count));
  }

  function isCount(value) {
    return Number.isSafeInteger(value) && value >= 0;
  }

  function readArray(buffer, start, name, { dtype, shape, at }) {
    if (!Object.hasOwn(BYTES, dtype)) throw damaged(`the array ${name} has no known type`);
    if (!Array.isArray(shape) || !shape.every(isCount) || !isCount(at) || at % ALIGNMENT) {
      throw damaged(`the array ${name} has no proper shape or place`);
    }
    const count = shape.reduce((product, size) => product * size, 1);
    if (start + at + count * BYTES[dtype] > buffer.byteLength) {
      throw damaged(`the array ${name} reaches beyond its end`);
    }
    return { data: view(buffer, dtype, start + at, count), shape };
  }

  function readHeader(buffer) {
    if (!(buffer instanceof ArrayBuffer) || buffer.byteLength < LENGTH_BYTES) {
      throw damaged("it has no header");
    }
    const start = LENGTH_BYTES + new DataView(buffer).getUint32(0, true);
    if (start > buffer.byteLength || start % ALIGNMENT) throw damaged("its header has no end");
    try {
      const bytes = new Uint8Array(buffer, LENGTH_BYTES, start - LENGTH_BYTES);
      const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      return { start, header: JSON.parse(text) };
    } catch {
      throw damaged("its header is not readable");
    }
  }

  function isTable(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }

  unbraid.unpack = function (buffer) {
    const { start, header } = readHeader(buffer);
    if (!isTable(header) || !isTable(header.arrays) || !("record" in header)) {
      throw damaged("its header has no record or no arrays");
    }
    const arrays = Object.create(null);
    for (const [name, described] of Object.entries(header.arrays)) {
      if (!isTable(described)) throw damaged(`the array ${name} is not described`);
      arrays[name] = readArray(buffer, start, name, described);
    }
    return { record: header.record, arrays };
  };

  unbraid.fromBase64 = function (text) {
    let bytes;
    try {
      bytes = atob(text);
    } catch {
      throw damaged("its text is not base64");
    }
    const numbers = new Uint8Array(bytes.length);
    for (let i = 0; i < bytes.length; i++) numbers[i] = bytes.charCodeAt(i);
    return numbers.buffer;
  };
})();

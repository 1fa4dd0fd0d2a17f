// Resize an image as Pillow does with BILINEAR and a reducing gap: the model was trained on images resized like this, and
// the browser's own resampling differs. Bytes are equal to Pillow's, or differ by one where it resizes a tall image
// vertically first.

const PRECISION = 2 ** 22; // of Pillow's integer weights

/**
 * Resize an image to a square, without keeping the aspect ratio.
 *
 * `readRows(top, count)` returns the RGBA bytes of some rows, so that a large image is never in memory as a whole.
 * Returns RGB bytes, row by row.
 */
export function resizeToSquare(readRows, width, height, side, reducingGap) {
  const factor = [width, height].map((size) => Math.floor(size / side / reducingGap) || 1);
  const across = filterWeights(width / factor[0], side);
  const down = filterWeights(height / factor[1], side);
  const rows = Math.ceil(height / factor[1]);
  const narrow = new Uint8Array(3 * side * rows); // resized horizontally only
  for (let row = 0; row < rows; row += 1) {
    const top = row * factor[1];
    const count = Math.min(factor[1], height - top);
    const reduced = averageBoxes(readRows(top, count), width, count, factor[0]);
    across.forEach((weights, column) => weighOne(reduced, weights, 0, 3, narrow, 3 * (row * side + column)));
  }
  const resized = new Uint8Array(3 * side * side);
  down.forEach((weights, row) => {
    for (let column = 0; column < side; column += 1) weighOne(narrow, weights, 3 * column, 3 * side, resized, 3 * (row * side + column));
  });
  return resized;
}

/** Average boxes of `factor` by `count` pixels in rows of RGBA; the last box may be narrower. Returns one row of RGB. */
function averageBoxes(rgba, width, count, factor) {
  const averages = new Uint8Array(3 * Math.ceil(width / factor));
  for (let box = 0; 3 * box < averages.length; box += 1) {
    const left = box * factor;
    const right = Math.min(width, left + factor);
    const area = count * (right - left);
    const multiplier = Math.floor(Math.fround(2 ** 24 / area));
    for (let channel = 0; channel < 3; channel += 1) {
      let sum = Math.floor(area / 2);
      for (let row = 0; row < count; row += 1) for (let column = left; column < right; column += 1) sum += rgba[4 * (row * width + column) + channel];
      averages[3 * box + channel] = Math.floor((sum * multiplier) / 2 ** 24);
    }
  }
  return averages;
}

/** For each of `count` outputs over `length` pixels, the last of which may be a part: the first pixel and the weights. */
function filterWeights(length, count) {
  const scale = Math.fround(length) / count; // Pillow has this length in single precision
  const support = Math.max(scale, 1);
  return Array.from({ length: count }, (_, index) => {
    const centre = (index + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const last = Math.min(Math.ceil(length), Math.trunc(centre + support + 0.5));
    const triangle = Array.from({ length: last - first }, (_, tap) => Math.max(0, 1 - Math.abs((tap + first - centre + 0.5) / support)));
    const total = triangle.reduce((sum, weight) => sum + weight, 0);
    return { first, weights: Int32Array.from(triangle, (weight) => Math.trunc(0.5 + (weight / total) * PRECISION)) };
  });
}

/** Write the weighted sum of pixels that lie `stride` bytes apart. */
function weighOne(from, { first, weights }, offset, stride, to, at) {
  let [red, green, blue] = [PRECISION / 2, PRECISION / 2, PRECISION / 2]; // rounds to nearest
  for (let tap = 0, index = offset + first * stride; tap < weights.length; tap += 1, index += stride) {
    const weight = weights[tap];
    red += weight * from[index];
    green += weight * from[index + 1];
    blue += weight * from[index + 2];
  }
  to[at] = red / PRECISION; // a Uint8Array drops the fraction
  to[at + 1] = green / PRECISION;
  to[at + 2] = blue / PRECISION;
}

// From features of two images to points: what mambamatcher/model/transfer.py and matching/confidence.py do in Python.
// Points are in the unit frame, [-1, 1] in both axes. All settings come from model/settings.json.

/**
 * Scale the features of each level and position to length one, and put the levels of a position next to each other.
 *
 * `features` are the encoder's output [level, channel, rows, columns].
 */
export function normalise(features, [levels, channels, rows, columns], epsilon) {
  const positions = rows * columns;
  const size = levels * channels;
  const vectors = new Float32Array(positions * size);
  for (let level = 0; level < levels; level += 1) {
    for (let position = 0; position < positions; position += 1) {
      const from = level * channels * positions + position;
      let squares = 0;
      for (let channel = 0; channel < channels; channel += 1) squares += features[from + channel * positions] ** 2;
      const norm = Math.max(Math.sqrt(squares), epsilon);
      const to = position * size + level * channels;
      for (let channel = 0; channel < channels; channel += 1) vectors[to + channel] = features[from + channel * positions] / norm;
    }
  }
  return { vectors, size, channels, rows, columns };
}

/**
 * Find a point of the source in the target.
 *
 * `head` has the weight of each level and a bias. Returns the point, its confidence and its heat map, whose maximum is 255.
 */
export function findPoint(point, source, target, head, settings) {
  const scores = scoresOf(point, source, target, head, settings.transfer.radius);
  const { found, probability } = readOut(scores, target, settings.transfer);
  const back = readOut(scoresOf(found, target, source, head, settings.transfer.radius), source, settings.transfer).found;
  const agreement = Math.exp(-distance(back, point) / settings.return_distance);
  const { calibration } = settings;
  const [peak, entropy, energy] = sharpness(scores, settings.transfer.temperature);
  const { peak: ofPeak, entropy: ofEntropy, agreement: ofAgreement, energy: ofEnergy = 0 } = calibration;
  const logit = calibration.bias + ofPeak * peak + ofEntropy * entropy + ofAgreement * agreement + ofEnergy * energy;
  const confidence = 1 / (1 + Math.exp(-logit));
  const highest = Math.max(...probability);
  return { found, confidence, heat: Uint8Array.from(probability, (value) => Math.round((255 * value) / highest)) };
}

const distance = (one, other) => Math.hypot(one.x - other.x, one.y - other.y);

/** The centre of each position of a grid, row by row. */
function centres({ rows, columns }) {
  const along = (index, count) => ((index + 0.5) * 2) / count - 1;
  return Array.from({ length: rows * columns }, (_, position) => ({ x: along(position % columns, columns), y: along(Math.floor(position / columns), rows) }));
}

/** The score of a point with every position of the other image: one row of the refined correlation map. */
function scoresOf(point, from, to, head, radius) {
  const blend = blendAround(point, from, radius);
  for (let index = 0; index < blend.length; index += 1) blend[index] *= head.weights[Math.floor(index / from.channels)];
  return Float64Array.from({ length: to.rows * to.columns }, (_, position) => {
    let score = head.bias;
    for (let index = 0, other = position * to.size; index < to.size; index += 1, other += 1) score += blend[index] * to.vectors[other];
    return score;
  });
}

/** The soft sampler: the mean feature around a point, with weights that fall linearly to zero at `radius`. */
function blendAround(point, { vectors, size, ...grid }, radius) {
  const weights = centres(grid).map((centre) => Math.max(0, radius - distance(point, centre)));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const blend = new Float64Array(size);
  weights.forEach((weight, position) => {
    if (weight) for (let index = 0; index < size; index += 1) blend[index] += (weight / total) * vectors[position * size + index];
  });
  return blend;
}

/** The kernel soft-argmax of scores measured from their minimum: the matching distribution and its mean. */
function readOut(scores, grid, { sigma, temperature }) {
  const places = centres(grid);
  const lowest = Math.min(...scores);
  const best = places[scores.indexOf(Math.max(...scores))];
  const probability = softmax(scores.map((score, position) => temperature * Math.exp(-(distance(places[position], best) ** 2) / (2 * sigma ** 2)) * (score - lowest)));
  const mean = (axis) => places.reduce((sum, place, position) => sum + probability[position] * place[axis], 0);
  return { found: { x: mean("x"), y: mean("y") }, probability };
}

/** How far the best score rises above the others, in standard deviations; the entropy of all, from 0 to 1; their log-sum-exp. */
function sharpness(scores, temperature) {
  const count = scores.length;
  const mean = scores.reduce((sum, score) => sum + score, 0) / count;
  const deviation = Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / (count - 1));
  const logits = scores.map((score) => temperature * score);
  const highest = Math.max(...logits);
  const energy = highest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - highest), 0));
  const shares = softmax(logits);
  const entropy = -shares.reduce((sum, share) => sum + (share ? share * Math.log(share) : 0), 0) / Math.log(count);
  return [(Math.max(...scores) - mean) / Math.max(deviation, 1e-9), entropy, energy];
}

function softmax(values) {
  const highest = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - highest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

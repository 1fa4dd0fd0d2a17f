// The model: downloads it and encodes images with ONNX Runtime.

import * as ort from "../onnxruntime-web/ort.wasm.min.mjs";
import { normalise } from "./readout.js";

const RUNTIME = "onnxruntime-web/ort-wasm-simd-threaded";
const WEIGHTS = "model.safetensors"; // the graph names this file as the place of its weights

const address = (path) => new URL(`../${path}`, import.meta.url).href;

export async function loadSettings() {
  return (await download("model/settings.json")).json();
}

export class Model {
  /** Download the model. `progress` is called with the fraction that has arrived. */
  static async load(settings, progress) {
    const [runtime, graph, weights] = await downloadAll([`${RUNTIME}.wasm`, "model/encoder.onnx", `model/${WEIGHTS}`], progress);
    ort.env.logLevel = "error"; // it warns that it does not know the processor
    ort.env.wasm.wasmBinary = runtime.buffer;
    ort.env.wasm.wasmPaths = { mjs: address(`${RUNTIME}.mjs`) };
    ort.env.wasm.numThreads = 1; // more need headers that many hosts cannot send
    const session = await ort.InferenceSession.create(graph, { externalData: [{ path: WEIGHTS, data: weights }] }).catch((error) => {
      throw new Error(`This browser cannot run the model; try a newer one. It says: ${error.message}`);
    });
    return new Model(settings, session, readHead(weights));
  }

  constructor(settings, session, head) {
    Object.assign(this, { settings, session, head });
  }

  /** Return the features of an image, given as RGB bytes of the model's size. */
  async encode(pixels) {
    const { side, epsilon } = this.settings;
    const planes = new Uint8Array(pixels.length); // all red values, all green ones, all blue ones
    for (let index = 0; index < pixels.length; index += 1) planes[(index % 3) * side * side + Math.floor(index / 3)] = pixels[index];
    const { features } = await this.session.run({ pixels: new ort.Tensor("uint8", planes, [3, side, side]) });
    return normalise(features.data, features.dims, epsilon);
  }
}

async function download(path) {
  const response = await fetch(address(path)).catch(() => null);
  if (!response?.ok) throw new Error(`${path} could not be loaded. Check the connection and reload the page.`);
  return response;
}

async function downloadAll(paths, progress) {
  const responses = await Promise.all(paths.map(download));
  const announced = responses.reduce((sum, response) => sum + Number(response.headers.get("Content-Length")), 0);
  let received = 0;
  return Promise.all(
    responses.map(async (response) => {
      const reader = response.body.getReader();
      const parts = [];
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        parts.push(part.value);
        received += part.value.length;
        progress(Math.min(1, received / announced)); // a compressed file announces fewer bytes than arrive
      }
      return new Uint8Array(await new Blob(parts).arrayBuffer());
    }),
  );
}

/** Read the linear head, the weight of each level and a bias, from the file of weights. It is in half precision. */
function readHead(file) {
  const start = 8 + Number(new DataView(file.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, start)));
  const read = (name) => {
    const [from, to] = header[name].data_offsets;
    const view = new DataView(file.buffer, start + from, to - from);
    return Array.from({ length: (to - from) / 2 }, (_, index) => fromHalf(view.getUint16(2 * index, true)));
  };
  return { weights: read("correlation.project.weight"), bias: read("correlation.project.bias")[0] };
}

function fromHalf(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
}

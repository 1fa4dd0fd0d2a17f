// Images as the page holds them: the server's copy and a thumbnail of it. The server may forget an image at any time.

import * as api from "./api.js";

const THUMBNAIL_HEIGHT = 184; // screen pixels of the strip, on a display of twice the density
const urls = new WeakMap(); // by blob

/** The server's id of each image, by ours, which is the one it had first. */
export const serverIds = new Map();
const uploading = new Map();

/** Complete what the server says about an upload: id, name, width, height. */
export async function hold(info) {
  serverIds.set(info.id, info.id);
  const copy = await api.fetchImage(info.id);
  return { ...info, copy, thumbnail: await shrink(copy) };
}

async function shrink(copy) {
  const bitmap = await createImageBitmap(copy, { resizeHeight: THUMBNAIL_HEIGHT, resizeQuality: "medium" });
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  bitmap.close();
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.8));
}

export function url(blob) {
  if (!urls.has(blob)) urls.set(blob, URL.createObjectURL(blob));
  return urls.get(blob);
}

/** Make a request with the server's ids of images. Those that the server has forgotten are uploaded again. */
export async function withImages(images, request) {
  try {
    return await request(...(await idsOf(images)));
  } catch (error) {
    if (error.status !== 404) throw error;
    images.forEach(({ id }) => serverIds.delete(id));
    return request(...(await idsOf(images)));
  }
}

const idsOf = (images) => Promise.all(images.map(serverId));

async function serverId(image) {
  if (serverIds.has(image.id)) return serverIds.get(image.id);
  if (!uploading.has(image.id)) uploading.set(image.id, api.addImage(image.copy, image).finally(() => uploading.delete(image.id)));
  const { id } = await uploading.get(image.id);
  serverIds.set(image.id, id);
  return id;
}

/** Let the server forget an image. */
export function release({ id }) {
  if (serverIds.has(id)) api.removeImage(serverIds.get(id)).catch(() => {}); // the server evicts it later anyway
  serverIds.delete(id);
}

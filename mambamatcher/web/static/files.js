// Files from drag and drop, from the clipboard and from file pickers. Folders are read recursively, and only their images are taken.

const isImage = (file) => file.type.startsWith("image/");

export async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files];
  const files = (await Promise.all(entries.map(filesIn))).flat();
  return files.filter(isImage).sort((one, other) => one.name.localeCompare(other.name));
}

export const pastedFiles = (clipboard) => [...clipboard.files].filter(isImage);

export function pickedFiles(input) {
  const files = [...input.files];
  input.value = ""; // otherwise picking the same file again fires no event
  return input.webkitdirectory ? files.filter(isImage) : files;
}

async function filesIn(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!batch.length) return files;
    files.push(...(await Promise.all(batch.map(filesIn))).flat());
  }
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Hands a file to the browser's downloads.
export function saveFile(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download has begun by then; an earlier end could take the file away from it.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

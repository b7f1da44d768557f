// A call as a command line. The credential is `$TDS_KEY`, so that it can be passed on.
import type { LoggedCall } from './call.ts';

export function asCurl({ method, path, headers, body }: LoggedCall): string {
  const lines = [`curl -sS${method === 'GET' ? '' : ` -X ${method}`} ${quoted(location.origin + path)}`];
  for (const [name, value] of Object.entries(headers)) {
    if (name === 'X-Svc-Client') continue;
    lines.push(`  -H ${/\$TDS_\w*KEY/.test(value) ? `"${name}: ${value}"` : quoted(`${name}: ${value}`)}`);
  }
  if (body instanceof Blob) lines.push('  --data-binary @FILE');
  else if (body !== undefined) lines.push(`  -d ${quoted(typeof body === 'string' ? body : JSON.stringify(body))}`);
  return lines.join(' \\\n');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

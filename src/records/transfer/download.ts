// The response of an export: a file. Its reader may pause for longer than other clients may, until the export is aborted.
// Failures: the failures of opening the body.
// Contract: decisions#export, neighbours#byte-budgets.
import { keepOwnIdle, type SetIdle } from '../../http/own-idle.ts';
import { LIMITS } from '../../limits.ts';

export const NDJSON = 'application/x-ndjson; charset=utf-8';
/** A reader that has stopped reading does not notice the abort, so the server closes its connection after this time. */
const CUT_IDLE_S = 1;

/** `open` resolves to the body, and calls its argument when the export is aborted. */
export async function download(
  request: Request,
  { type, name }: { type: string; name: string },
  open: (onCut: () => void) => Promise<ReadableStream<Uint8Array>>,
): Promise<Response> {
  let setIdle: SetIdle | undefined;
  const body = await open(() => setIdle?.(CUT_IDLE_S));
  keepOwnIdle(request, (set) => {
    setIdle = set;
    set(LIMITS.transfer.stalledMs / 1_000);
  });
  return new Response(body, {
    headers: {
      'content-type': type,
      'content-disposition': `attachment; filename="${name}"`,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
  });
}

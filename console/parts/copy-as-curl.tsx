// "Copy as curl": the last call that a page made, or a given one, as a command line with `$TDS_KEY` for the credential.
import { calls, type LoggedCall } from '../api/call.ts';
import { asCurl } from '../api/curl.ts';
import { CopyButton } from './copy-button.tsx';

interface Props {
  /** Picks the call to copy, newest first; by default the newest one. */
  of?: (call: LoggedCall) => boolean;
}

export function CopyAsCurl({ of = () => true }: Props) {
  return (
    <CopyButton
      kind="quiet"
      label="Copy as curl"
      value={() => {
        const found = calls.get().find(of);
        return found === undefined ? '' : asCurl(found);
      }}
    />
  );
}

// An error where it happened: a sentence, what to do, and the request's id for the person who can look it up. "Copy"
// takes time, page, code and id.
import { useState } from 'react';
import { ApiError, OfflineError } from '../api/errors.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy-button.tsx';

interface Props {
  error: unknown;
  /** What was tried, as a sentence: "Could not load companies." */
  title?: string;
  onRetry?: () => unknown;
}

export function ErrorPanel({ error, title, onRetry }: Props) {
  const [busy, setBusy] = useState(false);
  const retry = async (): Promise<void> => {
    setBusy(true);
    await Promise.resolve(onRetry?.()).catch(() => undefined);
    setBusy(false);
  };
  return (
    <div className="error-panel" role="alert">
      <p>
        {title !== undefined && <strong>{title} </strong>}
        {sentenceOf(error)}
      </p>
      {onRetry !== undefined && (
        <Button icon="refresh-cw" busy={busy} onClick={retry}>
          Try again
        </Button>
      )}
      {error instanceof ApiError && <Details error={error} />}
    </div>
  );
}

function Details({ error }: { error: ApiError }) {
  const { code, status, details, requestId } = error;
  const report = [new Date().toISOString(), location.pathname, `${status} ${code}`, requestId].join('\n');
  return (
    <>
      {requestId !== null && (
        <p className="caption row">
          <span>
            Request <code>{requestId}</code>
          </span>
          <CopyButton value={report} />
        </p>
      )}
      <details>
        <summary>Details</summary>
        <p className="mono">
          {status} {code}
        </p>
        {details.length > 0 && (
          <ul>
            {details.map(({ path, message }) => (
              <li key={`${path} ${message}`}>
                <code>{path}</code> {message}
              </li>
            ))}
          </ul>
        )}
      </details>
    </>
  );
}

/** An error as a sentence with a capital letter and a full stop. */
export function sentenceOf(error: unknown): string {
  if (error instanceof OfflineError) return 'No connection to the service. Check the network, then try again.';
  const text = error instanceof Error ? error.message : String(error);
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

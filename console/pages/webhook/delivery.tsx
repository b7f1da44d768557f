// One delivery beside the list: each attempt with what the receiver said, and the body as it was sent.
import { useQuery } from '@tanstack/react-query';
import { ApiError } from '../../api/errors.ts';
import { type Attempt, answerOf, type DeliveryDetail, deliveryQuery } from '../../api/webhooks.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CodeBlock } from '../../parts/code-block.tsx';
import { CopyButton } from '../../parts/copy-button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Peek } from '../../parts/peek.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { ago, counted, exactTime, time } from '../../parts/value.ts';
import { DeliveryStatus } from './status.tsx';

/** As many as the service keeps. */
const ATTEMPTS_KEPT = 20;

interface Props {
  tenant: string;
  subscription: string;
  id: string;
  isBusy: boolean;
  block: string | null;
  onRedeliver: () => void;
  onClose: () => void;
}

export function Delivery({ tenant, subscription, id, isBusy, block, onRedeliver, onClose }: Props) {
  const { data, error, refetch } = useQuery(deliveryQuery(tenant, subscription, id));
  const isGone = error instanceof ApiError && error.status === 404;
  return (
    <Peek
      title={data?.event ?? 'Delivery'}
      onClose={onClose}
      actions={
        <Button icon="refresh-cw" busy={isBusy} disabledReason={block} onClick={onRedeliver}>
          Redeliver
        </Button>
      }
    >
      {isGone && <Empty icon="send">There is no delivery with this id. It may no longer be kept.</Empty>}
      {error !== null && !isGone && <ErrorPanel title="Could not load the delivery." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && <Loaded delivery={data} />}
    </Peek>
  );
}

function Loaded({ delivery }: { delivery: DeliveryDetail }) {
  const { attempts, attempt_count: count, body, event_id: event, created_at: at, next_attempt_at: next } = delivery;
  return (
    <div className="stack">
      <div className="row">
        <DeliveryStatus of={delivery} />
        <span className="dim">
          queued <span title={exactTime(at)}>{time(at)}</span>
          {next !== null && (
            <>
              , next try <span title={exactTime(next)}>{Date.parse(next) <= Date.now() ? 'due' : ago(next)}</span>
            </>
          )}
        </span>
      </div>
      <p className="webhook-id">
        <code className="ellipsis">{event}</code>
        <CopyButton isSmall label="Copy the event's id" value={event} />
      </p>
      <h3>{count === 0 ? 'No attempt yet' : counted(count, 'attempt')}</h3>
      {count > ATTEMPTS_KEPT && <p className="caption">The latest {ATTEMPTS_KEPT}.</p>}
      {attempts.length === 0 && delivery.error !== null && <p>{delivery.error}</p>}
      {attempts.length > 0 && (
        <ol className="webhook-attempts">
          {attempts.map((attempt) => (
            <AttemptItem key={attempt.at} attempt={attempt} />
          ))}
        </ol>
      )}
      <h3>Body</h3>
      {body === null ? (
        <p className="dim">It is kept once the first attempt has ended.</p>
      ) : (
        <>
          <CodeBlock label="Laid out for reading" text={laidOut(body)} />
          <div>
            <CopyButton label="Copy as sent" value={body} />
          </div>
        </>
      )}
    </div>
  );
}

function AttemptItem({ attempt }: { attempt: Attempt }) {
  const { at, durationMs, http_status: status, error, responseText: said } = attempt;
  return (
    <li>
      <div className="row">
        <Badge tone={error === null ? 'ok' : 'bad'}>
          {error === null ? `${status}` : answerOf({ http_status: status, error })}
        </Badge>
        <span className="dim num" title={exactTime(at)}>
          {time(at)}, after {durationMs.toLocaleString('en')} ms
        </span>
      </div>
      {said !== null && said !== '' && (
        <pre tabIndex={0} role="region" aria-label={`What the receiver said at ${time(at)}`}>
          {said}
        </pre>
      )}
    </li>
  );
}

function laidOut(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

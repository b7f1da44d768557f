// How a subscription fares: in figures, and in words where it needs a person.
import type { ReactNode } from 'react';
import type { SubscriptionDetail } from '../../api/webhooks.ts';
import { Button } from '../../parts/button.tsx';
import { Notice } from '../../parts/states.tsx';
import { ago, counted, exactTime } from '../../parts/value.ts';

/** Seconds beyond which deliveries are said to be late. */
const LATE_S = 60;

export function HealthFigures({ subscription }: { subscription: SubscriptionDetail }) {
  const { lastSuccessAt, lastFailureAt, pending, failed24h, behindSeconds } = subscription.health;
  return (
    <dl className="webhook-health">
      <Figure name="Last success">{when(lastSuccessAt)}</Figure>
      <Figure name="Last failure">{when(lastFailureAt)}</Figure>
      <Figure name="Waiting">
        {pending.toLocaleString('en')}
        {behindSeconds >= LATE_S && <span className="caption"> for {lasting(behindSeconds)}</span>}
      </Figure>
      <Figure name="Failed in 24 h">{failed24h.toLocaleString('en')}</Figure>
    </dl>
  );
}

function Figure({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function when(time: string | null): ReactNode {
  return time === null ? <span className="dim">never</span> : <span title={exactTime(time)}>{ago(time)}</span>;
}

function lasting(seconds: number): string {
  if (seconds < 7_200) return counted(Math.round(seconds / 60), 'minute');
  return seconds < 172_800
    ? counted(Math.round(seconds / 3_600), 'hour')
    : counted(Math.round(seconds / 86_400), 'day');
}

interface Props {
  subscription: SubscriptionDetail;
  isTurning: boolean;
  block: string | null;
  onActivate: () => void;
}

/** What is wrong, and what a person can do about it. */
export function HealthNotice({ subscription, isTurning, block, onActivate }: Props) {
  const { health, disabled_reason: reason, is_active: isActive } = subscription;
  const { pending, lastError } = health;
  const waiting = pending === 0 ? '' : ` ${counted(pending, 'delivery waits', 'deliveries wait')} for it.`;
  if (!isActive && reason != null) {
    return (
      <Notice
        tone="bad"
        action={
          <Button icon="play" busy={isTurning} disabledReason={block} onClick={onActivate}>
            Switch on again
          </Button>
        }
      >
        The service switched it off: {reason}. Changes made since are not sent.{waiting} Once the receiver works, switch
        it on again; what has failed is sent again by “Replay”.
      </Notice>
    );
  }
  if (!isActive) return <Notice>Switched off. Its deliveries wait until it is switched on.{waiting}</Notice>;
  if (health.state === 'quota_exceeded') {
    return (
      <Notice tone="warn">
        Today's quota of deliveries is used up. Further deliveries wait until the next UTC day.{waiting}
      </Notice>
    );
  }
  if (health.state !== 'failing') return null;
  return (
    <Notice tone="bad">
      Failing: {lastError ?? 'the last attempt did not succeed'}.{waiting} Waiting deliveries are sent by themselves
      once it works again; “Replay” sends again what has failed.
    </Notice>
  );
}

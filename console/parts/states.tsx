// What a page shows instead of its content: nothing yet, nothing there, no right, no connection.
import type { ReactNode } from 'react';
import { Icon, type IconName } from './icon.tsx';

/** One sentence that says what belongs here, and the one action that begins it. */
export function Empty({
  icon = 'layers',
  children,
  action,
}: {
  icon?: IconName;
  children: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      <Icon name={icon} size={24} />
      <p>{children}</p>
      {action !== undefined && <div className="row">{action}</div>}
    </div>
  );
}

/** Grey bars in the place of text; they appear after 200 ms. */
export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <i key={line} />
      ))}
    </div>
  );
}

export function Notice({ tone, children, action }: { tone?: 'warn' | 'bad'; children: ReactNode; action?: ReactNode }) {
  return (
    <div className={`notice ${tone ?? ''}`}>
      <Icon name={tone === undefined ? 'info' : 'triangle-alert'} />
      <div className="grow">{children}</div>
      {action}
    </div>
  );
}

/** `value` of `max` things done; `label` says it in words, such as "4,200 of 12,480". */
export function Progress({ value, max, label }: { value: number; max: number; label: string }) {
  return (
    <div className="progress">
      <progress value={value} max={max} aria-label={label} />
      <span className="caption num">{label}</span>
    </div>
  );
}

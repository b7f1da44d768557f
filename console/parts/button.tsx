// A button. `busy` shows a spinner in place of the icon after 150 ms, so that quick answers do not flicker; meanwhile
// further clicks do nothing. A disabled button has a reason, which its tooltip says.
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useRef, useState } from 'react';
import { Icon, type IconName } from './icon.tsx';

interface Props extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'disabled'> {
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  icon?: IconName;
  busy?: boolean;
  /** Why the button cannot be used now; null when it can. */
  disabledReason?: string | null | undefined;
  children?: ReactNode;
}

export function Button({ kind = 'plain', icon, busy = false, disabledReason, children, onClick, ...rest }: Props) {
  const shown = useDelayed(busy);
  const isDisabled = disabledReason != null;
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${children === undefined ? 'only-icon' : ''} ${rest.className ?? ''}`}
      aria-disabled={isDisabled || undefined}
      aria-busy={busy || undefined}
      title={disabledReason ?? rest.title ?? (children === undefined ? rest['aria-label'] : undefined)}
      onClick={(event) => {
        if (isDisabled || busy) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {shown ? <span className="spinner" aria-hidden="true" /> : icon !== undefined && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
    </button>
  );
}

/** True from 150 ms after the beginning of the work until its end, but for at least 300 ms. */
function useDelayed(busy: boolean): boolean {
  const [shown, setShown] = useState(false);
  const since = useRef(0);
  useEffect(() => {
    const wait = busy ? 150 : Math.max(0, 300 - (performance.now() - since.current));
    if (busy === shown) return;
    const timer = setTimeout(() => {
      since.current = performance.now();
      setShown(busy);
    }, wait);
    return () => clearTimeout(timer);
  }, [busy, shown]);
  return shown;
}

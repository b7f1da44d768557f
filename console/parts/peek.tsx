// A side panel over the page, not modal: the list beside it stays usable. Esc closes it. Full screen under 768 px.
import { type ReactNode, useEffect, useId, useRef } from 'react';
import { Button } from './button.tsx';

export function Peek({
  title,
  onClose,
  children,
  actions,
}: {
  title: ReactNode;
  onClose: () => void;
  children: ReactNode;
  actions?: ReactNode;
}) {
  const id = useId();
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    panel.current?.focus();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <aside
      className="peek"
      aria-labelledby={id}
      tabIndex={-1}
      ref={panel}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || event.defaultPrevented) return;
        event.stopPropagation();
        onClose();
      }}
    >
      <header>
        <h2 id={id} className="grow ellipsis">
          {title}
        </h2>
        {actions}
        <Button kind="quiet" icon="x" aria-label="Close" onClick={onClose} />
      </header>
      {/* It scrolls, so the keyboard must reach it. */}
      <div tabIndex={0}>{children}</div>
    </aside>
  );
}

// A modal dialog: takes the focus, keeps it, gives it back to its opener. Esc and a click beside it close it, unless
// `onClose` declines, such as for unsaved edits.
import { Dialog as Ark } from '@ark-ui/react/dialog';
import { Portal } from '@ark-ui/react/portal';
import { type ReactNode, type RefObject, useRef } from 'react';
import { Button } from './button.tsx';

/** Where the focus begins unless the opener says otherwise: the first field. */
const FIELDS = 'input, select, textarea';

interface Props {
  title: string;
  /** Called when the person wants to leave; the opener unmounts the dialog. */
  onClose: () => void;
  children: ReactNode;
  /** The buttons, the primary one last. */
  actions?: ReactNode;
  wide?: boolean;
  /** For text that must be read and acknowledged: neither Esc nor a click beside it closes. */
  isStrict?: boolean;
  initialFocus?: RefObject<HTMLElement | null>;
}

export function Dialog({ title, onClose, children, actions, wide = false, isStrict = false, initialFocus }: Props) {
  const body = useRef<HTMLDivElement>(null);
  return (
    <Ark.Root
      open
      onOpenChange={({ open }) => open || onClose()}
      // The focus that another dialog gives back as it closes must not close this one.
      onFocusOutside={(event) => event.preventDefault()}
      closeOnEscape={!isStrict}
      // Esc closes the topmost thing only, such as a list of completions in a field.
      onEscapeKeyDown={(event) => {
        if (document.activeElement?.hasAttribute('data-keeps-escape')) event.preventDefault();
      }}
      closeOnInteractOutside={!isStrict}
      initialFocusEl={() => initialFocus?.current ?? body.current?.querySelector(FIELDS) ?? null}
    >
      <Portal>
        <Ark.Backdrop className="veil" />
        <Ark.Positioner className="dialog-place">
          <Ark.Content className={`dialog ${wide ? 'wide' : ''}`}>
            <header>
              <Ark.Title className="dialog-title">{title}</Ark.Title>
              {!isStrict && <Button kind="quiet" icon="x" aria-label="Close" onClick={onClose} />}
            </header>
            <div className="dialog-body" ref={body}>
              {children}
            </div>
            {actions !== undefined && <footer>{actions}</footer>}
          </Ark.Content>
        </Ark.Positioner>
      </Portal>
    </Ark.Root>
  );
}

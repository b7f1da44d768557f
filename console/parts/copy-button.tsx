// Copies a text. Where the browser refuses the clipboard, the text is shown selected instead.
import { useEffect, useRef, useState } from 'react';
import { Button } from './button.tsx';

interface Props {
  value: string | (() => string);
  label?: string;
  /** Without words, for places beside the value itself. */
  isSmall?: boolean;
  kind?: 'plain' | 'primary' | 'quiet';
}

export function CopyButton({ value, label = 'Copy', isSmall = false, kind = 'plain' }: Props) {
  const [state, setState] = useState<'idle' | 'copied' | 'refused'>('idle');
  const field = useRef<HTMLTextAreaElement>(null);
  const text = (): string => (typeof value === 'string' ? value : value());
  useEffect(() => {
    if (state === 'refused') field.current?.select();
    if (state !== 'copied') return;
    const timer = setTimeout(() => setState('idle'), 2_000);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      setState('copied');
    } catch {
      setState('refused');
    }
  };
  const icon = state === 'copied' ? 'check' : 'copy';
  return (
    <>
      {isSmall ? (
        <Button kind="quiet" icon={icon} aria-label={state === 'copied' ? 'Copied' : label} onClick={copy} />
      ) : (
        <Button kind={kind} icon={icon} onClick={copy}>
          {state === 'copied' ? 'Copied' : label}
        </Button>
      )}
      {state === 'refused' && (
        <textarea ref={field} className="input mono" readOnly aria-label="Text to copy" rows={2} value={text()} />
      )}
    </>
  );
}

// Code or a body as text, with line numbers, wrapping on demand, and "Copy".
import { useState } from 'react';
import { Button } from './button.tsx';
import { CopyButton } from './copy-button.tsx';

export function CodeBlock({ text, label }: { text: string; label: string }) {
  const [isWrapped, wrap] = useState(false);
  return (
    <figure className={`code ${isWrapped ? 'wrapped' : ''}`}>
      <figcaption>
        <span className="grow ellipsis">{label}</span>
        <Button kind="quiet" aria-pressed={isWrapped} onClick={() => wrap(!isWrapped)}>
          Wrap
        </Button>
        <CopyButton kind="quiet" value={text} />
      </figcaption>
      <pre tabIndex={0} role="region" aria-label={label}>
        {text.split('\n').map((line, number) => (
          <span key={number}>
            {line}
            {'\n'}
          </span>
        ))}
      </pre>
    </figure>
  );
}

// The origins whose pages may call the API with the tenant's credentials, one a line.
import { useState } from 'react';
import { TextAreaField } from '../../parts/field.tsx';
import { Section } from './section.tsx';

interface Props {
  tenant: string;
  origins: readonly string[];
  block: string | null;
}

export function Origins({ tenant, origins, block }: Props) {
  const [typed, type] = useState<string | null>(null);
  const text = typed ?? origins.join('\n');
  const allowedOrigins = text.split(/[\s,]+/).filter((origin) => origin !== '');
  const isChanged = allowedOrigins.join('\n') !== origins.join('\n');
  return (
    <Section
      tenant={tenant}
      title="Origins"
      block={block}
      change={isChanged ? { settings: { allowedOrigins } } : null}
      onSaved={() => type(null)}
    >
      {(problems) => (
        <TextAreaField
          label="Allowed origins"
          optional
          rows={Math.min(10, Math.max(3, allowedOrigins.length + 1))}
          spellCheck={false}
          placeholder="https://app.example.com"
          value={text}
          error={problemOf(problems, allowedOrigins)}
          hint="One per line. Pages from these origins may use this tenant's credentials in a browser. Each public key has its own list."
          onChange={({ target }) => type(target.value)}
        />
      )}
    </Section>
  );
}

/** The first problem, with the origin that it is about. */
function problemOf(problems: Record<string, string>, origins: readonly string[]): string | undefined {
  const [path, message] = Object.entries(problems).find(([key]) => key.startsWith('settings.allowedOrigins')) ?? [];
  if (path === undefined) return undefined;
  const origin = origins[Number(path.split('.')[2])];
  return origin === undefined ? message : `${origin} ${message}`;
}

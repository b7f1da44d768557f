// The tenant's own host name: claimed here, verified by a TXT record that only who runs the domain can make.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type OwnTenant, ownTenantQuery } from '../../api/tenant.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyButton } from '../../parts/copy-button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Section } from './section.tsx';

export function Domain({ tenant, own, block }: { tenant: string; own: OwnTenant; block: string | null }) {
  const stored = own.settings.customDomain ?? '';
  const [typed, type] = useState<string | null>(null);
  const domain = typed ?? stored;
  const wanted = domain
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/.*$/, '');
  return (
    <Section
      tenant={tenant}
      title="Custom domain"
      block={block}
      change={wanted === stored ? null : { settings: { customDomain: wanted === '' ? null : wanted } }}
      onSaved={() => type(null)}
    >
      {(problems) => (
        <>
          <TextField
            label="Domain"
            optional
            placeholder="data.acme.com"
            value={domain}
            error={problems['settings.customDomain']}
            hint="Requests to this host need no tenant header. Leave empty for none."
            onChange={({ target }) => type(target.value)}
          />
          {stored !== '' && <Verification tenant={tenant} own={own} domain={stored} />}
        </>
      )}
    </Section>
  );
}

function Verification({ tenant, own, domain }: { tenant: string; own: OwnTenant; domain: string }) {
  const { refetch, isFetching } = useQuery({ ...ownTenantQuery(tenant), enabled: false });
  const { customDomainStatus: status, customDomainToken: token } = own;
  const name = `_svc-verify.${domain}`;
  if (status === 'verified') {
    return (
      <p className="row">
        <Badge tone="ok">verified</Badge> {domain} answers for this tenant.
      </p>
    );
  }
  return (
    <div className="stack">
      <p className="row">
        <Badge tone="warn">pending</Badge> Add this TXT record at the DNS provider of {domain}.
      </p>
      <dl className="settings-record">
        <dt>Name</dt>
        <dd>
          <code>{name}</code>
          <CopyButton isSmall label="Copy the name" value={name} />
        </dd>
        <dt>Value</dt>
        <dd>
          <code>{token}</code>
          <CopyButton isSmall label="Copy the value" value={token ?? ''} />
        </dd>
      </dl>
      <div>
        <Button icon="refresh-cw" busy={isFetching} onClick={() => refetch()}>
          Check now
        </Button>
      </div>
    </div>
  );
}

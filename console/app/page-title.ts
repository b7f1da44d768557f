// The title of the document: page, then what it shows, then the tenant. A dot before it marks unsaved edits.
import { useEffect } from 'react';
import { useParams } from './params.ts';

export function usePageTitle(name: string, isUnsaved = false): void {
  const { tenant } = useParams();
  useEffect(() => {
    document.title = `${isUnsaved ? '• ' : ''}${[name, tenant].filter(Boolean).join(' · ')} · Tenant Data Service`;
  }, [name, tenant, isUnsaved]);
}

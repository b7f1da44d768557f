// The card of a page that is open without a session: sign-in's frame with a title of its own.
import { type ReactNode, useEffect } from 'react';
import { Mark } from './sign-in.tsx';

export function OpenCard({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Tenant Data Service`;
  }, [title]);
  return (
    <main className="open-page">
      <div className="open-card">
        <div className="brand">
          <Mark />
          <h1>{title}</h1>
        </div>
        {children}
      </div>
      <p className="caption">Tenant Data Service</p>
    </main>
  );
}

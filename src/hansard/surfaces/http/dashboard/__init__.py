"""The dashboard: pages that people leave open. It shows the views that every surface shows, and decides nothing of its own."""

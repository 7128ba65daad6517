"""Programs that tools run as processes of their own: limited, killed whole, dead in time."""

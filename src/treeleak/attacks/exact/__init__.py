"""The attack on exact counts where every tree used each row once."""

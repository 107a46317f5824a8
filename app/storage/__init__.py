"""Where the bytes come from: named warehouses, read with limits and retries; caches; upkeep."""

from app.storage.cache import ByteCache, CacheState
from app.storage.disk.disk_tier import DiskCacheState, DiskTier
from app.storage.listings import Listings, check_listable
from app.storage.readers import Readers
from app.storage.retry import RetryPolicy
from app.storage.warehouse import Warehouse

__all__ = [
    "ByteCache",
    "CacheState",
    "DiskCacheState",
    "DiskTier",
    "Listings",
    "Readers",
    "RetryPolicy",
    "Warehouse",
    "check_listable",
]

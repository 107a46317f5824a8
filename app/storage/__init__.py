"""Where the bytes come from: named warehouses, read with limits and retries; caches of decoded objects."""

from app.storage.cache import ByteCache, CacheStatistics
from app.storage.deadline import Cancellation, cancellable, check_deadline, remaining_seconds, time_limit
from app.storage.readers import Readers
from app.storage.retry import RetryPolicy
from app.storage.warehouse import Warehouse

__all__ = [
    "ByteCache",
    "CacheStatistics",
    "Cancellation",
    "Readers",
    "RetryPolicy",
    "Warehouse",
    "cancellable",
    "check_deadline",
    "remaining_seconds",
    "time_limit",
]

"""Named warehouses, read with limits and retries, caches, and upkeep."""

from app.storage.cache import ByteCache, CacheRoom, CacheState
from app.storage.disk.column_entry import Columns, DamagedEntryError
from app.storage.listings import Listings, check_listable
from app.storage.readers import Readers
from app.storage.retry import RetryBudget, RetryPolicy
from app.storage.shared_tier import SharedCacheState, SharedTier
from app.storage.shared_upkeep import prune_shared
from app.storage.stores.failures import is_missing, is_timeout
from app.storage.stores.local_files import sync_directory
from app.storage.tiers import TierEntry, Tiers
from app.storage.warehouse import Warehouse
from app.storage.writing import Writing

__all__ = [
    # Keeps the most recently used objects, up to a weight in bytes.
    "ByteCache",
    # Capacity that several caches share.
    "CacheRoom",
    # The numbers of one cache, as answers have them.
    "CacheState",
    # The columns of an entry, as views of its bytes.
    "Columns",
    # An entry's content was altered after it was written.
    "DamagedEntryError",
    # Lists each warehouse at start and then every minute, in the background, and warns of failures.
    "Listings",
    # Threads that read files concurrently.
    "Readers",
    # Limits retries of storage calls, so that an outage does not multiply the load on a store.
    "RetryBudget",
    # Number and delays of the retries of a storage call.
    "RetryPolicy",
    # The numbers of the shared cache, as answers have them.
    "SharedCacheState",
    # The store that processes share.
    "SharedTier",
    # The entry of one key, in any tier.
    "TierEntry",
    # This machine's directory and the shared store, if there are any.
    "Tiers",
    # Reads files below one root, and below the external roots that the operator allows.
    "Warehouse",
    # Writes below the root of a warehouse, and below its external roots.
    "Writing",
    # Lists a warehouse; raises if it is missing instead of empty.
    "check_listable",
    # Returns True if a store's error means that the file does not exist.
    "is_missing",
    # Returns True if a store's error means that it timed out.
    "is_timeout",
    # Removes objects of the shared cache that are older than a time.
    "prune_shared",
    # Syncs a directory, so that the names of its files survive a crash.
    "sync_directory",
]

package org.paimonindex;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Optional;
import org.apache.paimon.Snapshot;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.predicate.CompoundPredicate;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.LeafPredicate;
import org.apache.paimon.table.CatalogEnvironment;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.snapshot.TimeTravelUtil;

/** What releases of the engine name or type differently, called by name. */
final class Releases {

    /** Its result came to be of another class in 1.4. */
    private static final Method FUNCTION = method(CompoundPredicate.class, "function");
    /** Since 1.4, where a test may be of something that is made of a column. */
    private static final Method COLUMN_IF_ANY = method(LeafPredicate.class, "fieldRefOptional");
    /** Before 1.4. */
    private static final Method COLUMN = method(LeafPredicate.class, "fieldRef");
    /** Since 1.2. */
    private static final Method TRAVEL = method(TimeTravelUtil.class, "tryTravelOrLatest", FileStoreTable.class);
    /** Before 1.2. */
    private static final Method RESOLVE = method(TimeTravelUtil.class, "resolveSnapshot", FileStoreTable.class);
    /** Since 1.1. */
    private static final Method IS_VERSIONED = method(CatalogEnvironment.class, "supportsVersionManagement");
    private static final Method LOADER = method(CatalogEnvironment.class, "catalogLoader");
    /** Files are of an interface since 1.3, and were of a class. */
    private static final Method FILE_NAME = method(DataFileMeta.class, "fileName");
    private static final Method FILE_ROWS = method(DataFileMeta.class, "rowCount");
    private static final Method FILE_BYTES = method(DataFileMeta.class, "fileSize");

    private Releases() {}

    private static Method method(Class<?> owner, String name, Class<?>... arguments) {
        try {
            return owner.getMethod(name, arguments);
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    /** The function that joins the parts of a compound. */
    static Object function(CompoundPredicate compound) {
        return call(FUNCTION, compound);
    }

    /** The column that is tested as it is; null where something is made of it first. */
    static FieldRef column(LeafPredicate leaf) {
        return COLUMN_IF_ANY == null
                ? (FieldRef) call(COLUMN, leaf)
                : (FieldRef) ((Optional<?>) call(COLUMN_IF_ANY, leaf)).orElse(null);
    }

    /** The snapshot that a table's options name, or the latest; null for a table that was never written to. */
    static Snapshot snapshot(FileStoreTable table) {
        return (Snapshot) call(TRAVEL == null ? RESOLVE : TRAVEL, null, table);
    }

    /** Whether the catalog keeps a table's snapshots; an external table of such a catalog has no loader of it. */
    static boolean isVersionedByCatalog(FileStoreTable table) {
        CatalogEnvironment environment = table.catalogEnvironment();
        return IS_VERSIONED != null && (Boolean) call(IS_VERSIONED, environment) && call(LOADER, environment) != null;
    }

    static String fileName(DataFileMeta file) {
        return (String) call(FILE_NAME, file);
    }

    static long rows(DataFileMeta file) {
        return (Long) call(FILE_ROWS, file);
    }

    static long bytes(DataFileMeta file) {
        return (Long) call(FILE_BYTES, file);
    }

    private static Object call(Method method, Object target, Object... arguments) {
        if (method == null) {
            throw new NoSuchMethodError("this release has none of the methods that are known");
        }
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }
}

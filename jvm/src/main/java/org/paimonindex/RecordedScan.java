package org.paimonindex;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.DataTableScan;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.TableScan;

/**
 * A scan that records how it is set up, and sets up in the same way whichever scan plans in the end.
 *
 * <p>It is a proxy, since each release of the engine gives scans more methods: one that this release of ours
 * does not know is recorded like any other, and {@link Planner} does not ask where it could matter.
 */
final class RecordedScan implements InvocationHandler {

    /** One call that sets up a scan. */
    static final class Step {

        final Method method;
        final Object[] arguments;

        Step(Method method, Object[] arguments) {
            this.method = method;
            this.arguments = arguments == null ? new Object[0] : arguments;
        }

        boolean is(String name, Class<?> argument) {
            return method.getName().equals(name) && argument.isInstance(arguments.length == 1 ? arguments[0] : null);
        }
    }

    private final FileStoreTable table;
    private final PlannedTable planned;
    private final Planner planner;
    private final ScanNote note;
    private final List<Step> steps = new ArrayList<>();
    private final List<Predicate> runtimeKeys = new ArrayList<>();
    /** The scan whose plan was given; null before. */
    private DataTableScan planning;
    private boolean isPlanned;

    RecordedScan(FileStoreTable table, PlannedTable planned, Planner planner, ScanNote note) {
        this.table = table;
        this.planned = planned;
        this.planner = planner;
        this.note = note;
    }

    DataTableScan proxy() {
        return (DataTableScan)
                Proxy.newProxyInstance(
                        DataTableScan.class.getClassLoader(), new Class<?>[] {DataTableScan.class}, this);
    }

    FileStoreTable table() {
        return table;
    }

    PlannedTable planned() {
        return planned;
    }

    ScanNote note() {
        return note;
    }

    /** The set-up calls of this name, in their order. */
    Stream<Step> steps() {
        return steps.stream();
    }

    /** What Spark found of keys to join with; the scans that plan do not know of these. */
    List<Predicate> runtimeKeys() {
        return runtimeKeys;
    }

    /** The plan of a table's scan that is set up as this one was. */
    TableScan.Plan planOn(FileStoreTable other) {
        planning = on(other);
        return planning.plan();
    }

    private DataTableScan on(FileStoreTable other) {
        DataTableScan scan = other.newScan();
        for (Step step : steps) {
            call(step.method, scan, step.arguments);
        }
        return scan;
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) {
        if (method.getDeclaringClass() == Object.class) {
            return ofObject(proxy, method, arguments);
        }
        if (method.getName().equals("plan")) {
            if (isPlanned) {
                // As a batch scan of the engine does.
                throw new EndOfScanException();
            }
            isPlanned = true;
            return planner.plan(this);
        }
        if (method.getReturnType().isInstance(proxy)) {
            record(new Step(method, arguments));
            return proxy;
        }
        // What a scan tells after its plan is about that plan.
        return call(method, planning == null ? on(table) : planning, arguments);
    }

    private void record(Step step) {
        if (!step.is("withPartitionFilter", PartitionPredicate.class)) {
            steps.add(step);
            return;
        }
        RuntimeKeys.Divided filter = RuntimeKeys.divide((PartitionPredicate) step.arguments[0], table.schema());
        runtimeKeys.addAll(filter.others);
        if (filter.partitions != null) {
            steps.add(new Step(step.method, new Object[] {filter.partitions}));
        }
    }

    private Object ofObject(Object proxy, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "equals":
                return proxy == arguments[0];
            case "hashCode":
                return System.identityHashCode(proxy);
            default:
                return "RecordedScan of " + planned;
        }
    }

    private static Object call(Method method, Object target, Object[] arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw RecordedScan.<RuntimeException>asIs(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    /** What the engine throws reaches its caller as the engine threw it. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E asIs(Throwable thrown) throws E {
        throw (E) thrown;
    }
}

package org.paimonindex;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.HttpURLConnection;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One request over HTTP and its answer, in a thread of its own: limits of sockets end neither the look-up of a host nor
 * an answer that comes byte by byte.
 *
 * <p>{@link HttpURLConnection} is the client that Java 8 has; it keeps connections, and repeats what was sent on one
 * that the service had closed.
 */
final class Exchange implements Callable<Exchange.Answer> {

    /** The service names at most 10,000 files, in less than 1 kB each. */
    static final int MOST_BYTES = 64 << 20;

    private static final ThreadPoolExecutor THREADS =
            new ThreadPoolExecutor(
                    0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), Exchange::thread);

    /** What goes on in the background ends after this long. */
    private static final int LATE_MILLIS = 30_000;

    /** An answer's status and its whole body. */
    static final class Answer {

        final int status;
        final byte[] body;

        Answer(int status, byte[] body) {
            this.status = status;
            this.body = body;
        }
    }

    private final HttpURLConnection connection;
    /** Null for a GET. */
    private final byte[] body;

    private volatile boolean isConnected;
    /** Whether the head of the answer is there. */
    private volatile boolean hasBegun;

    private Exchange(HttpURLConnection connection, byte[] body) {
        this.connection = connection;
        this.body = body;
    }

    /**
     * Sends a request and waits for all of its answer.
     *
     * @param body what is posted; null for a GET
     * @param meanwhile work that does not need the answer, done while the service looks for it
     * @param until in {@link System#nanoTime}
     * @param late done once an answer has come for which nobody has waited; null where such an answer is of no use
     * @throws ExecutionException there is no answer; the cause is an {@link IOException}, or an {@link
     *     IllegalStateException} for an answer of too many bytes
     * @throws TimeoutException there is no whole answer in time
     */
    static Answer of(HttpURLConnection connection, byte[] body, Runnable meanwhile, long until, Runnable late)
            throws ExecutionException, InterruptedException, TimeoutException {
        Exchange exchange = new Exchange(connection, body);
        long left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
        int millis = (int) Math.max(1, Math.min(left, Integer.MAX_VALUE - LATE_MILLIS));
        connection.setConnectTimeout(millis);
        connection.setReadTimeout(late == null ? millis : millis + LATE_MILLIS);
        connection.setInstanceFollowRedirects(false);
        Future<Answer> call = THREADS.submit(exchange);
        boolean goesOn = false;
        try {
            meanwhile.run();
            return call.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            if (!exchange.isConnected) {
                throw new ExecutionException(new ConnectException("no connection in time"));
            }
            // What comes byte by byte is given up.
            goesOn = late != null && !exchange.hasBegun;
            if (goesOn) {
                THREADS.execute(() -> exchange.awaitLate(call, late));
            }
            throw e;
        } finally {
            if (!goesOn) {
                exchange.end(call);
            }
        }
    }

    private void awaitLate(Future<Answer> call, Runnable late) {
        try {
            if (call.get(LATE_MILLIS, TimeUnit.MILLISECONDS).status == HttpURLConnection.HTTP_OK) {
                late.run();
            }
        } catch (ExecutionException | TimeoutException e) {
            // The table is asked about again after a while.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            end(call);
        }
    }

    private void end(Future<Answer> call) {
        if (!call.isDone()) {
            // Ends the thread's read as well.
            connection.disconnect();
            call.cancel(true);
        }
    }

    @Override
    public Answer call() throws IOException {
        connection.setDoOutput(body != null);
        connection.connect();
        isConnected = true;
        if (body != null) {
            connection.getOutputStream().write(body);
        }
        int status = connection.getResponseCode();
        if (status < 0) {
            throw new IOException("the answer is not HTTP");
        }
        hasBegun = true;
        boolean isError = status >= HttpURLConnection.HTTP_BAD_REQUEST;
        try (InputStream stream = isError ? connection.getErrorStream() : connection.getInputStream()) {
            byte[] content = stream == null ? new byte[0] : read(stream, MOST_BYTES + 1);
            if (content.length > MOST_BYTES) {
                // Closing the stream would read the rest.
                connection.disconnect();
                throw new IllegalStateException("the answer has more than " + MOST_BYTES + " bytes");
            }
            return new Answer(status, content);
        }
    }

    /** The bytes of a stream up to its end, and no more than {@code most}. */
    static byte[] read(InputStream stream, int most) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] part = new byte[1 << 14];
        while (bytes.size() < most) {
            int count = stream.read(part, 0, Math.min(part.length, most - bytes.size()));
            if (count < 0) {
                break;
            }
            bytes.write(part, 0, count);
        }
        return bytes.toByteArray();
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "paimon-index");
        thread.setDaemon(true);
        return thread;
    }
}

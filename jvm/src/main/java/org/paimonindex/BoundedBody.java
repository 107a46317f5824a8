package org.paimonindex;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicReference;
import java.net.http.HttpResponse;

/** The body of an answer, as long as it is no longer than {@link #MOST_BYTES} and somebody waits for it. */
final class BoundedBody implements HttpResponse.BodySubscriber<byte[]> {

    /** The service names at most 10,000 files, in less than 1 kB each. */
    static final int MOST_BYTES = 64 << 20;

    private static final Flow.Subscription CANCELLED =
            new Flow.Subscription() {
                @Override
                public void request(long count) {}

                @Override
                public void cancel() {}
            };

    private final CompletableFuture<byte[]> whole = new CompletableFuture<>();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final AtomicReference<Flow.Subscription> connection = new AtomicReference<>();

    @Override
    public CompletionStage<byte[]> getBody() {
        return whole;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        if (connection.compareAndSet(null, subscription)) {
            subscription.request(Long.MAX_VALUE);
        } else {
            subscription.cancel();
        }
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        for (ByteBuffer buffer : buffers) {
            if (bytes.size() + buffer.remaining() > MOST_BYTES) {
                whole.completeExceptionally(
                        new IllegalStateException("the answer has more than " + MOST_BYTES + " bytes"));
                cancel();
                return;
            }
            byte[] part = new byte[buffer.remaining()];
            buffer.get(part);
            bytes.write(part, 0, part.length);
        }
    }

    @Override
    public void onError(Throwable problem) {
        whole.completeExceptionally(problem);
    }

    @Override
    public void onComplete() {
        whole.complete(bytes.toByteArray());
    }

    /** Nobody waits any more: closes the connection, unless the body has ended. */
    void cancel() {
        Flow.Subscription subscription = connection.getAndSet(CANCELLED);
        if (subscription != null) {
            subscription.cancel();
        }
    }
}

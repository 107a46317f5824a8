package org.paimonindex;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Map;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.fs.ByteArraySeekableStream;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.FileStatus;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.PositionOutputStream;
import org.apache.paimon.fs.SeekableInputStream;

/** Some files from memory, all others from the table's own storage; nothing can be written. */
final class SnapshotFileIO implements FileIO {

    private static final long serialVersionUID = 1L;

    private final FileIO storage;
    /** Never serialized: the tables that plan by this stay in the driver. */
    private final transient Map<Path, byte[]> files;

    SnapshotFileIO(FileIO storage, Map<Path, byte[]> files) {
        this.storage = storage;
        this.files = files;
    }

    @Override
    public boolean isObjectStore() {
        return storage.isObjectStore();
    }

    @Override
    public void configure(CatalogContext context) {
        storage.configure(context);
    }

    @Override
    public SeekableInputStream newInputStream(Path path) throws IOException {
        byte[] content = files.get(path);
        return content == null ? storage.newInputStream(path) : new ByteArraySeekableStream(content);
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        byte[] content = files.get(path);
        return content == null ? storage.getFileStatus(path) : new InMemory(path, content.length);
    }

    @Override
    public boolean exists(Path path) throws IOException {
        return files.containsKey(path) || storage.exists(path);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return storage.listStatus(path);
    }

    @Override
    public PositionOutputStream newOutputStream(Path path, boolean overwrite) throws IOException {
        throw readOnly(path);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        throw readOnly(path);
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
        throw readOnly(path);
    }

    @Override
    public boolean rename(Path source, Path target) throws IOException {
        throw readOnly(source);
    }

    private static IOException readOnly(Path path) {
        return new FileNotFoundException(path + ": a pruned snapshot is only read");
    }

    private static final class InMemory implements FileStatus {

        private final Path path;
        private final long length;

        InMemory(Path path, long length) {
            this.path = path;
            this.length = length;
        }

        @Override
        public long getLen() {
            return length;
        }

        @Override
        public boolean isDir() {
            return false;
        }

        @Override
        public Path getPath() {
            return path;
        }

        @Override
        public long getModificationTime() {
            return 0;
        }
    }
}

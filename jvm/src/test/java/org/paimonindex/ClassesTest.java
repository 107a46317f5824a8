package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.DataInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A JVM that cannot load a class of the jar may lose its other Paimon catalogs. */
final class ClassesTest {

    private static final int JAVA_8 = 52;

    @Test
    void allAreOfJava8() throws Exception {
        try (Stream<Path> files = Files.walk(Path.of("target/classes"))) {
            List<Path> classes =
                    files.filter(file -> file.toString().endsWith(".class")).collect(Collectors.toList());
            for (Path file : classes) {
                try (DataInputStream content = new DataInputStream(Files.newInputStream(file))) {
                    content.readInt();
                    content.readUnsignedShort();
                    assertEquals(JAVA_8, content.readUnsignedShort(), file.toString());
                }
            }
        }
    }
}

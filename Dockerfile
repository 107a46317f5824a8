# paimon-index as a container image. `make image` builds and tries it; docs/operations.md tells how to run it.
#
#   BASE_IMAGE      an image with Python >= 3.11 and its venv module; the service's two stages stand on it
#   PYTHON_VERSION  chooses the base image unless BASE_IMAGE does
#   MAVEN_IMAGE     an image with Maven and Java >= 11, which builds the engine's catalog; no other part has Java
#   EXTRAS          storages besides the machine's own: s3, gcs, azure, oss, hdfs, separated by commas; otel sends traces
#   VERSION, REVISION, CREATED  what the labels say
ARG PYTHON_VERSION=3.13
ARG BASE_IMAGE=docker.io/library/python:${PYTHON_VERSION}-slim-bookworm
ARG MAVEN_IMAGE=docker.io/library/maven:3.9-eclipse-temurin-17

FROM ${MAVEN_IMAGE} AS catalog
WORKDIR /src/jvm
COPY jvm .
# A secret settings.xml names repositories of one's own; nothing of it stays in the image.
RUN --mount=type=secret,id=settings.xml,target=/root/.m2/settings.xml,required=false \
    mvn -q -B package -DskipTests

FROM ${BASE_IMAGE} AS build
ARG EXTRAS=s3
WORKDIR /src
COPY . .
# A secret pip.conf names package indexes and certificates of one's own; nothing of it stays in the image.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf,required=false \
    container/install.sh /opt/paimon-index "${EXTRAS}"

FROM ${BASE_IMAGE}
ARG BASE_IMAGE
ARG VERSION=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="paimon-index" \
      org.opencontainers.image.description="Answers from Apache Paimon index files over HTTP: which files to skip, which rows to keep" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE_IMAGE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

COPY --from=build /opt/paimon-index /opt/paimon-index
# For Spark's drivers, which get it from here: the service itself runs no Java.
COPY --from=catalog /src/jvm/target/paimon-index-catalog-*.jar /opt/paimon-index/jvm/
COPY LICENSE NOTICE container/healthcheck.py /opt/paimon-index/share/

# The one directory that the service writes to. Group 0 may, too: some platforms choose a user of their own, of that group.
RUN install -d -m 0770 -o 10001 -g 0 /var/cache/paimon-index
VOLUME ["/var/cache/paimon-index"]

# What the service takes from its surroundings where nothing else is set; every setting is a variable PAIMON_INDEX_*.
ENV PATH=/opt/paimon-index/bin:${PATH} \
    HOME=/var/cache/paimon-index \
    TMPDIR=/var/cache/paimon-index \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PAIMON_INDEX_HOST=0.0.0.0 \
    PAIMON_INDEX_PORT=8080 \
    PAIMON_INDEX_DISK_CACHE=/var/cache/paimon-index/files

WORKDIR /opt/paimon-index
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/opt/paimon-index/bin/python", "-I", "/opt/paimon-index/share/healthcheck.py"]
ENTRYPOINT ["paimon-index"]
CMD ["serve"]

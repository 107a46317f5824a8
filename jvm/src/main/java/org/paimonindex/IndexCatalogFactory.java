package org.paimonindex;

import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.factories.FactoryException;
import org.apache.paimon.options.Options;

/** Makes the catalog {@code paimon-index}; the engine finds it by its service loader. */
public final class IndexCatalogFactory implements CatalogFactory {

    public static final String IDENTIFIER = "paimon-index";

    @Override
    public String identifier() {
        return IDENTIFIER;
    }

    @Override
    public Catalog create(CatalogContext context) {
        ServiceOptions service = ServiceOptions.of(context.options());
        // The wrapped catalog's options go to tasks, which need no token.
        Map<String, String> inherited = new HashMap<>(context.options().toMap());
        inherited.keySet().removeIf(key -> key.startsWith(ServiceOptions.PREFIX));
        inherited.put("metastore", service.metastore);
        CatalogContext inner =
                CatalogContext.create(
                        Options.fromMap(inherited), context.hadoopConf(), context.preferIO(), context.fallbackIO());
        Catalog catalog;
        try {
            catalog = CatalogFactory.createUnwrappedCatalog(inner, getClass().getClassLoader());
        } catch (FactoryException e) {
            throw ServiceOptions.unusable("metastore", service.metastore, ServiceOptions.WRAPPED, e);
        }
        return service.mode == ServiceOptions.Mode.OFF
                ? catalog
                : Unneeded.orElse(
                        IDENTIFIER,
                        () -> new IndexCatalog(catalog, new Planner(service)),
                        () -> catalog);
    }
}

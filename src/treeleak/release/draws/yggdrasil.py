FOREST_RULE = "Yggdrasil forest"

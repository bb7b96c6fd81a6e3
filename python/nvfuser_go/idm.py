"""Maps between the axes of tensors. Not in this build; every class raises Unsupported."""

from nvfuser_go.unavailable import kind

IdModel = kind(__name__, "IdModel")
ValGraph = kind(__name__, "ValGraph")
DisjointValSets = kind(__name__, "DisjointValSets")

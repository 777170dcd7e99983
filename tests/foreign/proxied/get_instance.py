import numpy as np


class GetData:
    def __init__(self, n_instance, n):
        self.n_instance, self.n = n_instance, n

    def generate_instances(self):
        np.random.seed(2024)
        return [np.random.rand(self.n) for _ in range(self.n_instance)]

CREATE TABLE features (
  id INTEGER PRIMARY KEY, priority INTEGER NOT NULL, category VARCHAR(100) NOT NULL,
  name VARCHAR(255) NOT NULL, description TEXT NOT NULL, steps JSON NOT NULL,
  passes BOOLEAN NOT NULL DEFAULT 0, in_progress BOOLEAN NOT NULL DEFAULT 0, dependencies JSON);
INSERT INTO features (id, priority, category, name, description, steps)
  VALUES (1, 1, 'login', 'Log in', 'Users log in with a password.', '["A wrong password is refused"]');

/* second - another unit of a program: types of its own, and one whose name code.c has, too. */

struct left {
	long first;
	struct left *next;
};

struct only_here {
	char tag;
	long counts[4];
};

struct only_here only_here = { 1, { 2, 3, 4, 5 } };

int second(struct only_here *object, long step)
{
	for (int i = 0; i < 4; i++)
		object->counts[i] += step;
	return object->tag;
}

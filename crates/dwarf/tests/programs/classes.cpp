// Classes of every kind. The program prints the size of each, and where each member and base of it is, as the compiler has it.

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace net {
struct Base {
	virtual ~Base() {}
	int a = 0;

protected:
	char c = 0;

public:
	static void print(const Base &);
};

class Other {
public:
	long l = 0;
	unsigned b1 : 3, b2 : 7;
};

struct Tail : Base {
	char in_tail = 0;
	short more = 0;
};

struct Empty {};

struct Marked : Other, Empty {
	int mark = 0;
};

struct Shared : virtual Base {
	int v = 0;
};

struct SharedToo : virtual Base {
	char w = 0;
};

struct Diamond : Shared, SharedToo {
	long d = 0;
};

template <class T, int N> struct Array {
	T items[N];
	static int made;
	using value = T;
	T *begin() { return items; }
};
template <> int Array<char, 5>::made = 3;

class Derived : public Base, private Other {
public:
	int own = 0;
	Array<char, 5> array;
	std::vector<int> list;
	std::atomic<long> counter{ 0 };
	enum class Kind : unsigned char { A, B } kind = Kind::A;
	struct Inner {
		int x;
	} inner{ 0 };
	int &reference;
	bool flag = false;
	int Derived::*data_member = nullptr;
	void (Derived::*function_member)(int) = nullptr;
	alignas(64) std::mutex lock;
	static Derived *instance;

	explicit Derived(int &target) : reference(target) {}
	void add(int x);
};

Derived *Derived::instance;

void Derived::add(int x)
{
	own = x;
	list.push_back(x);
	counter++;
}
} // namespace net

namespace {
struct Hidden {
	int value;
};
Hidden hidden{ 4 };
} // namespace

#define SIZE(type) std::printf("size %zu %s\n", sizeof(type), #type)
#define MEMBER(object, type, member) \
	std::printf("member %td %s %s\n", (char *)&(object).member - (char *)&(object), #member, #type)
#define BASE(object, type, base) \
	std::printf("base %td %s %s\n", (char *)static_cast<base *>(&(object)) - (char *)&(object), \
		    #base, #type)

int main(int count, char **)
{
	int target = count;
	net::Derived derived(target);
	net::Tail tail;
	net::Shared shared;
	net::Diamond diamond;
	net::Marked marked;
	std::list<net::Other> others(1);
	std::string text = "x";

	derived.add(count + hidden.value);
	SIZE(net::Base);
	SIZE(net::Other);
	SIZE(net::Tail);
	SIZE(net::Shared);
	SIZE(net::Diamond);
	SIZE(net::Derived);
	SIZE(net::Derived::Inner);
	SIZE(std::string);
	MEMBER(derived, net::Derived, own);
	MEMBER(derived, net::Derived, array);
	MEMBER(derived, net::Derived, list);
	MEMBER(derived, net::Derived, counter);
	MEMBER(derived, net::Derived, kind);
	MEMBER(derived, net::Derived, inner);
	MEMBER(derived, net::Derived, flag);
	MEMBER(derived, net::Derived, data_member);
	MEMBER(derived, net::Derived, function_member);
	MEMBER(derived, net::Derived, lock);
	SIZE(net::Marked);
	MEMBER(marked, net::Marked, mark);
	MEMBER(tail, net::Tail, in_tail);
	MEMBER(tail, net::Tail, more);
	MEMBER(tail, net::Tail, a);
	MEMBER(shared, net::Shared, v);
	MEMBER(shared, net::Shared, a);
	MEMBER(diamond, net::Diamond, d);
	MEMBER(diamond, net::Diamond, v);
	MEMBER(diamond, net::Diamond, w);
	MEMBER(diamond, net::Diamond, a);
	BASE(derived, net::Derived, net::Base);
	BASE(tail, net::Tail, net::Base);
	BASE(shared, net::Shared, net::Base);
	BASE(diamond, net::Diamond, net::Shared);
	BASE(diamond, net::Diamond, net::SharedToo);
	BASE(diamond, net::Diamond, net::Base);
	return text.size() + others.size() - 1 + net::Array<char, 5>::made == 4 && !net::Derived::instance ? 0 : 1;
}

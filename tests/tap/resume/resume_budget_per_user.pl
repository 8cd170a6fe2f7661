# Tests that the number of pages that the sessions of one user read from the store to resume is limited, without a loss
# and without a delay for other users.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 1 }    # with several, a user's shard contains few notifications of others
use Clairon::Test qw(wait_until of_mark);
use Test::More;

use constant { ROWS => 600, ROW_BYTES => 16_000, BUDGET => 7 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, text text);
    SELECT clairon.watch('t', 'USER', '=somebody')});
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store);

my ($before) = map { my $pos = $_->pos; $_->close; $pos } $feed->client('u1');
$pg->safe_psql('postgres', 'INSERT INTO t SELECT i, repeat(md5(i::text), ' . ROW_BYTES / 32 . ') FROM generate_series(1, ' . ROWS . ') i');
$pg->safe_psql('postgres', qq{SELECT clairon.notify('USER', '{$_}', '{"mark": "behind"}')}) for qw(greedy modest);
# A relay that starts now fills its replay buffer as far as this large notification.
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (0, repeat('x', 600000))});
wait_until('all notifications are stored', sub { $store->stored == ROWS + 3 });

my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'delivery.resume_pages' => BUDGET });
my $modest = $relay->client('modest', pos => $before);
$modest->run_until('the session has resumed', sub { of_mark($modest, 'behind') });
my $pages = $relay->metric('clairon_resume_pages_total');
cmp_ok($pages, '>', 2 * ROWS * ROW_BYTES / 300_000,
    "a resume reads $pages pages, although they contain no other notification for its user");
is($relay->metric('clairon_resume_waits_total'), 0, 'a single resume never waits');
$modest->close;

# These sessions need more pages than the reserve of 60 seconds.
my $wanted = int(BUDGET * 60 / $pages) + 3;
my @greedy = map { $relay->client('greedy', pos => $before) } 1 .. $wanted;
$_->run_until('a session waits for the budget of its user', sub { $relay->metric('clairon_resume_waits_total') > 0 }) for $greedy[0];
my $has_all = sub { return @greedy == grep { of_mark($_, 'behind') } @greedy };
ok(!$has_all->(), 'sessions wait while the budget of their user is exhausted');
$modest = $relay->client('modest', pos => $before);
$modest->run_until('the session has resumed', sub { of_mark($modest, 'behind') });
ok(!$has_all->(), 'another user does not wait for these sessions');
my $late = $relay->client('greedy', pos => $before);
ok(!$late->wait_for('connected')->{resumed}, 'an additional session of the user without budget does not resume');
ok(!$has_all->(), 'the additional session is connected before the other sessions have resumed');
$late->close;
pop(@greedy)->close for 1, 2;
$greedy[0]->run_until('all sessions have resumed', $has_all);
is($_->gaps, '', 'a delayed session loses no notification') for @greedy;
is(scalar(of_mark($_, 'behind')), 1, 'a delayed session receives no duplicates') for @greedy;
cmp_ok($relay->metric('clairon_resume_pages_total'), '<=', $pages * ($wanted + 2), 'no page is read unnecessarily');

done_testing();

# A connection that was there all the time when its user joins a group or asks for topics: is it shown what comes from then
# on, and neither shown nor told of anything from before?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub notify { my ($audience, $target, $mark) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$target}', '{\"mark\": \"$mark\"}')") }
sub marks { return map { $_->{payload}{mark} } $_[0]->notifications }

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'old')});
wait_until('one is a member', sub { $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'old') });
my ($old, $new) = map { $relay->client($_) } qw(old new);
notify(TEAM => 't1', 'before');
$old->wait_notifications(1);

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'new')});
notify(TEAM => 't1', 'after');
$new->run_until('what is after it', sub { grep { $_ eq 'after' } marks($new) });
is_deeply([ marks($new) ], ['after'], 'what the group got before is not shown to who joins');

# More than the relay keeps, all for others; and then the store keeps none of it.
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{old}', '{"mark": "other"}') FROM generate_series(1, 5000)});
$old->run_until('them', sub { $old->notifications == 5002 });
$store->execute('XTRIM', $_, 'MAXLEN', 0) for $store->keys('stream');
$new->send({ t => 'subscribe', r => 1, topics => ['*'] });
$new->wait_for('subscribed');
notify(USER => 'new', 'last');
$new->run_until('what comes then', sub { grep { $_ eq 'last' } marks($new) });
is($new->gaps, '', 'who missed nothing is told of no gap');

done_testing();

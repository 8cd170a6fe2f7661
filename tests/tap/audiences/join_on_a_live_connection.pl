# Tests that a user who joins a group or subscribes to topics while connected receives later notifications, but neither
# earlier notifications nor a gap for them.
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
wait_until('the user is a member', sub { $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'old') });
my ($old, $new) = map { $relay->client($_) } qw(old new);
notify(TEAM => 't1', 'before');
$old->wait_notifications(1);

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'new')});
notify(TEAM => 't1', 'after');
$new->run_until('the next notification arrives', sub { grep { $_ eq 'after' } marks($new) });
is_deeply([ marks($new) ], ['after'], 'a new member does not receive earlier notifications');

# More notifications than the replay buffer can contain, all for other users; then the store trims them.
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{old}', '{"mark": "other"}') FROM generate_series(1, 5000)});
$old->run_until('all notifications arrive', sub { $old->notifications == 5002 });
$store->execute('XTRIM', $_, 'MAXLEN', 0) for $store->keys('stream');
$new->send({ t => 'subscribe', r => 1, topics => ['*'] });
$new->wait_for('subscribed');
notify(USER => 'new', 'last');
$new->run_until('the next notification arrives', sub { grep { $_ eq 'last' } marks($new) });
is($new->gaps, '', 'a session that missed no notification receives no gap');

done_testing();

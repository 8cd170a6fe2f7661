# Clairon::Test::Cluster: a faster PostgreSQL::Test::Cluster. It copies a template and runs queries without psql.
package Clairon::Test::Cluster;

use strict;
use warnings;

use parent -norequire, 'PostgreSQL::Test::Cluster';
use Clairon::Test::Query;
use Fcntl qw(:flock);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();

my @INITDB = ('--locale=C', '--encoding=UTF8');    # independent of the locale of the user who runs the tests
my $copies = 0;

# Returns a cluster configured for logical decoding. A test's first cluster is a copy of a template, with the same
# system identifier, so further clusters run initdb.
sub init
{
    my ($self) = @_;
    my @options = (allows_streaming => 'logical', extra => [@INITDB]);
    return $self->SUPER::init(@options) if $copies++;
    my $template = template();
    my $run      = \&PostgreSQL::Test::Utils::system_or_bail;
    no warnings 'redefine';
    # The method of PostgreSQL 15 has no template; the method of PostgreSQL 16 ignores its template with initdb options.
    local *PostgreSQL::Test::Utils::system_or_bail = sub {
        return $run->(@_) unless $_[0] eq 'initdb';
        $run->('cp', '-a', $template, $self->data_dir);
        # A recursive chmod of the checkout may have made the template readable for other users; PostgreSQL requires
        # 0700.
        chmod 0700, $self->data_dir or die 'could not chmod ' . $self->data_dir . ": $!";
        return;
    };
    return $self->SUPER::init(@options);
}

# Returns the folder of an initialized cluster that has never run. Later test runs reuse it.
sub template
{
    my $version = qx{initdb --version};
    my $folder  = "$ENV{CLAIRON_WORK}/initdb-" . ($version =~ s/[^\w.+~-]+/-/gr);
    return $folder if -d $folder;
    open my $lock, '>', "$ENV{CLAIRON_WORK}/initdb.lock" or die "could not write $ENV{CLAIRON_WORK}/initdb.lock: $!";
    flock $lock, LOCK_EX or die "could not lock $ENV{CLAIRON_WORK}/initdb.lock: $!";
    return $folder if -d $folder;
    PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', "$folder.new");
    PostgreSQL::Test::Utils::system_or_bail('initdb', '-D', "$folder.new", '-A', 'trust', '-N', @INITDB);
    rename "$folder.new", $folder or die "could not rename $folder.new: $!";
    return $folder;
}

# Returns a session for these statements. Harmless statements share a session, because a new backend costs more CPU time
# than most of the tests' queries. Other statements end the shared session: they may change the settings or privileges
# of new sessions.
sub session
{
    my ($self, $database, @statements) = @_;
    my $last = delete $self->{session};
    return if !@statements;
    my $is_shared = Clairon::Test::Query::are_harmless(@statements);
    my $owner     = "$$ $database";    # not shared with a forked child
    my $query     = $is_shared && $last && $last->{owner} eq $owner && $last->{query}->is_idle ? $last->{query}
      : Clairon::Test::Query->connect($self->host, $self->port, $database);
    $self->{session} = { query => $query, owner => $owner } if $query && $is_shared;
    return $query;
}

# A shared session may read new settings later than a new session.
sub reload
{
    my ($self, @options) = @_;
    delete $self->{session};
    return $self->SUPER::reload(@options);
}

# Like psql() of PostgreSQL::Test::Cluster; safe_psql() calls this method too.
sub psql
{
    my ($self, $database, $sql, %params) = @_;
    my %results    = map { $_ => delete $params{$_} } grep { exists $params{$_} } qw(stdout stderr);
    my $is_plain   = !grep { !/^on_error_(die|stop)$/ || !$params{$_} } keys %params;
    my @statements = $is_plain && !grep({ $ENV{$_} } qw(PGUSER PGOPTIONS PGCLIENTENCODING)) ? Clairon::Test::Query::split_statements($sql) : ();
    my $query      = $self->session($database, @statements);
    return $self->SUPER::psql($database, $sql, %params, %results) unless $query;

    my ($status, $out, $err) = $query->run(@statements);
    if ($status && $params{on_error_die})
    {
        die "error running SQL: '$err'\nwith sql '$sql'" if $status == 3;
        die "connection error: '$err'\nwith sql '$sql'";
    }
    ${ $results{stdout} } = $out if $results{stdout};
    ${ $results{stderr} } = $err if $results{stderr};
    return wantarray ? ($status, $out, $err) : $status;
}

1;
